"""Requests that join and leave between steps: `admit`, `cancel` and `step` of our engine."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.inference.decoder_test import parameters, tokens_of
from tutti.inference.engine import (
    Chosen,
    Ended,
    EngineBusy,
    EngineStopped,
    Join,
    Mode,
    Request,
    RequestRefused,
    Shaping,
    Weights,
    generate,
)
from tutti.inference.engine_test import END, LIMITS, SMALL
from tutti.inference.errors import InvalidSampling, NotFinite, PromptTooLong
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling
from tutti.inference.slotengine import SlotEngine
from tutti.inference.slots import Prefix
from tutti.model.chunks import Layout

KINDS = (
    Sampling(seed=5),
    Sampling(0.7, seed=2**52),
    Sampling(0.7, top_p=0.8),
    Sampling(1.3, top_k=7, seed=3),
    Sampling(0),
)
SHAPES = (Shaping(), Shaping(bias=((3, 4.0), (END, -2.0))), Shaping(presence=0.6, frequency=0.4))


def engine(mode: Mode = Mode.EXACT, slots: int = 16) -> SlotEngine:
    made = SlotEngine(Layout(SMALL), rows=2, mode=mode, slots=slots)
    made.start(Weights("seed-1", parameters(SMALL, 1)[1]))
    return made


def joins(count: int) -> list[Join]:
    """Requests of every kind of sampling, with prompts of several lengths, some of them equal."""
    return [
        Join(
            f"request-{k}",
            number=k % 3,
            prompt=tuple(tokens_of(SMALL, 1 + 3 * k % 17, seed=k // 2)),
            sampling=KINDS[k % len(KINDS)],
            limits=replace(LIMITS, tokens=4 + k % 12),
            shaping=SHAPES[k % len(SHAPES)],
            alternatives=(0, 3)[k % 2],
        )
        for k in range(count)
    ]


Found = dict[Hashable, tuple[list[Chosen], Stop | None]]


def finished(engine: SlotEngine, found: Found | None = None) -> Found:
    found = {} if found is None else found
    while engine.in_progress:
        told(engine, found)
    return found


def told(engine: SlotEngine, found: Found) -> list[Chosen | Ended]:
    events = engine.step()
    for event in events:
        chosen, stop = found.setdefault(event.id, ([], None))
        assert stop is None, "nothing follows an end"
        if isinstance(event, Chosen):
            chosen.append(event)
        else:
            found[event.id] = (chosen, event.stop)
    return events


def alone(engine: SlotEngine, requests: Sequence[Join]) -> Found:
    found: Found = {}
    for request in requests:
        engine.admit(request)
        finished(engine, found)
    return found


@pytest.fixture(scope="module")
def exact() -> SlotEngine:
    return engine()


@pytest.fixture(scope="module")
def truth(exact: SlotEngine) -> Found:
    """Every request as it is when it is alone."""
    return alone(exact, joins(24))


def test_requests_that_join_at_any_time_are_answered_as_each_alone(exact: SlotEngine, truth: Found) -> None:
    found: Found = {}
    waiting = joins(24)
    for request in waiting[:7]:
        exact.admit(request)
    for request in waiting[7:]:
        told(exact, found)
        exact.admit(request)
    assert finished(exact, found) == truth
    for chosen, stop in truth.values():
        assert stop in (Stop.END, Stop.TOKENS, Stop.CONTEXT)
        assert [each.at for each in chosen] == list(range(len(chosen)))


def test_a_step_is_the_stream_of_whole_requests(exact: SlotEngine) -> None:
    sampling, asked = Sampling(seed=5), [Request(k, tuple(tokens_of(SMALL, 1 + k, seed=k))) for k in range(5)]
    for request in asked:
        exact.admit(Join(request.number, request.number, request.prompt, sampling, LIMITS))
    found = finished(exact)
    for whole in generate(exact, asked, sampling, LIMITS):
        chosen, stop = found[whole.number]
        assert (tuple(each.token for each in chosen), stop) == (whole.tokens, whole.stop)
        assert [each.logprob for each in chosen] == whole.logprobs.tolist()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_request_goes_on_after_given_tokens_with_equal_bits(
    exact: SlotEngine, truth: Found, data: st.DataObject
) -> None:
    """As after the death of another replica: what was chosen before is given."""
    moved = list[Join]()
    for request in data.draw(
        st.lists(st.sampled_from(joins(24)), min_size=1, max_size=6, unique_by=lambda each: each.id)
    ):
        chosen, _ = truth[request.id]
        cut = data.draw(st.integers(0, len(chosen) - 1))
        moved.append(replace(request, given=tuple(each.token for each in chosen[:cut])))
    for request in moved:
        exact.admit(request)
    found = finished(exact)
    for request in moved:
        chosen, stop = truth[request.id]
        assert found[request.id] == (chosen[len(request.given) :], stop)


def test_whoever_leaves_frees_its_place_in_the_next_step(exact: SlotEngine, truth: Found) -> None:
    """In a slot, waiting for one, and before its prompt was read."""
    found: Found = {}
    for request in joins(24):
        exact.admit(replace(request, limits=replace(LIMITS, tokens=20, end=-1)))
    for _ in range(3):
        told(exact, found)
    gone = [next(iter(found)), "request-23", "request-22"]
    assert "request-23" not in found
    before = exact.in_progress
    for each in gone:
        exact.cancel(each)
    exact.cancel("nobody")
    events = told(exact, found)
    assert {event.id for event in events if isinstance(event, Ended) and event.stop is Stop.CANCELLED} == {*gone}
    assert not any(isinstance(event, Chosen) and event.id in gone for event in events)
    assert exact.in_progress <= before - len(gone)
    finished(exact, found)
    assert len(found) == 24
    assert alone(exact, joins(3)) == {each.id: truth[each.id] for each in joins(3)}


def test_a_step_reads_no_more_prompts_than_fill_its_rows(exact: SlotEngine) -> None:
    for k in range(6):
        exact.admit(Join(k, k, tuple(tokens_of(SMALL, 5, seed=90 + k)), Sampling(), replace(LIMITS, end=-1)))
    exact.admit(Join(6, 6, tuple(tokens_of(SMALL, 5, seed=90)), Sampling(), replace(LIMITS, end=-1)))
    begun = list[set[Hashable]]()
    for _ in range(3):
        begun.append({event.id for event in exact.step() if isinstance(event, Chosen) and event.at == 0})
    assert begun == [{0, 1}, {2, 3}, {4, 5, 6}]
    finished(exact)


def test_log_probabilities_are_the_policys_whatever_shapes_the_draw(exact: SlotEngine) -> None:
    [request] = joins(1)
    shaped = replace(request, shaping=Shaping(bias=((11, 100.0),)), alternatives=SMALL.vocabulary)
    exact.admit(shaped)
    [(chosen, _)] = finished(exact).values()
    assert {each.token for each in chosen} == {11}
    [row] = exact.score([(*request.prompt, *(each.token for each in chosen))])
    assert [each.logprob for each in chosen] == row[len(request.prompt) - 1 :].tolist()
    for each in chosen:
        ids, logprobs = zip(*each.alternatives, strict=True)
        assert sorted(ids) == list(range(SMALL.vocabulary))
        assert list(logprobs) == sorted(logprobs, reverse=True)
        assert dict(each.alternatives)[11] == each.logprob
        assert np.exp(logprobs).sum() == pytest.approx(1, abs=1e-5)


def test_a_text_that_is_forced_is_scored_and_goes_on_as_after_its_prompt(exact: SlotEngine) -> None:
    """Its tokens neither end the completion nor count for penalties, and can be given again."""
    text = (*tokens_of(SMALL, 7), END, *tokens_of(SMALL, 4))
    shaping, limits = Shaping(presence=0.6, bias=((END, -100.0),)), replace(LIMITS, tokens=6)
    plain = Join("plain", 1, text, Sampling(seed=3), limits, shaping, alternatives=2)
    scored = replace(
        plain, id="scored", prompt=text[:1], forced=text[1:], limits=replace(limits, tokens=6 + len(text) - 1)
    )
    found = alone(exact, [plain, scored, replace(scored, id="moved", given=text[1:9])])
    chosen = found["scored"][0]
    assert [each.token for each in chosen[: len(text) - 1]] == list(text[1:])
    assert [each.logprob for each in chosen[: len(text) - 1]] == exact.score([text])[0].tolist()
    rest = [(each.token, each.logprob, each.alternatives) for each in chosen[len(text) - 1 :]]
    assert rest == [(each.token, each.logprob, each.alternatives) for each in found["plain"][0]]
    assert [replace(each, id="scored") for each in found["moved"][0]] == chosen[8:]
    with pytest.raises(RequestRefused):
        exact.admit(replace(scored, forced=(1,) * 40, limits=limits))


def test_penalties_count_the_tokens_of_the_completion() -> None:
    logits = np.zeros(6, np.float32)
    Shaping(presence=1, frequency=0.5).shape(logits, np.array([2, 4, 2, 2, 9]))
    assert logits.tolist() == [0, 0, -2.5, 0, -1.5, 0]
    with pytest.raises(InvalidSampling, match="presence is nan"):
        Shaping(presence=float("nan"))
    with pytest.raises(InvalidSampling, match="bias of 3 is inf"):
        Shaping(bias=((3, float("inf")),))


def test_what_was_read_is_shared_by_requests_of_one_salt(exact: SlotEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    read, slots = list[int](), exact._now().slots
    original = slots.read

    def counted(prompts: Sequence[Sequence[int]]) -> list[Prefix]:
        read.append(len(prompts))
        return original(prompts)

    monkeypatch.setattr(slots, "read", counted)
    prompt = tuple(tokens_of(SMALL, 9, seed=77))
    for k, salt in enumerate(("one", "one", "two")):
        exact.admit(Join(k, k, prompt, Sampling(), LIMITS, salt=salt))
        finished(exact)
    assert read == [1, 1]


def test_requests_that_cannot_be_served_are_refused_alone(exact: SlotEngine, truth: Found) -> None:
    [request] = joins(1)
    exact.admit(request)
    for wrong, error in (
        (replace(request, id="long", prompt=(1,) * SMALL.context), PromptTooLong),
        (replace(request, id="empty", prompt=()), RequestRefused),
        (request, RequestRefused),
        (replace(request, id="whole", given=(1,) * request.limits.tokens), RequestRefused),
        (replace(request, id="ended", given=(1, END)), RequestRefused),
    ):
        with pytest.raises(error, match=str(wrong.id)):
            exact.admit(wrong)
    assert finished(exact) == {request.id: truth[request.id]}
    assert exact.step() == []


def test_a_stream_and_requests_that_join_exclude_each_other(exact: SlotEngine) -> None:
    [request] = joins(1)
    exact.admit(request)
    with pytest.raises(EngineBusy):
        exact.stream([Request(1, (1,))], Sampling(), LIMITS)
    with pytest.raises(EngineBusy):
        exact.swap(Weights("other", parameters(SMALL, 2)[1]))
    finished(exact)
    stream = exact.stream([Request(1, (1,))], Sampling(), LIMITS)
    next(stream)
    for call in (lambda: exact.admit(request), exact.step):
        with pytest.raises(EngineBusy, match="stream"):
            call()
    stream.close()  # type: ignore[attr-defined]
    exact.admit(request)
    finished(exact)


def test_a_stream_of_an_engine_that_was_stopped_ends_and_leaves_later_requests_alone() -> None:
    made, [request] = engine(Mode.FAST), joins(1)
    stream = made.stream([Request(1, (1,))], Sampling(), replace(LIMITS, end=-1))
    next(stream)
    made.stop()
    made.start(Weights("seed-1", parameters(SMALL, 1)[1]))
    made.admit(request)
    with pytest.raises(EngineStopped, match="stopped while this stream"):
        for _ in stream:
            pass
    assert made.in_progress == 1
    assert finished(made)[request.id][1] is not None


def test_a_model_that_diverges_leaves_nothing_in_progress() -> None:
    made = engine(Mode.FAST)
    made.swap(Weights("diverged", torch.full((Layout(SMALL).elements,), float("nan"))))
    made.admit(joins(1)[0])
    with pytest.raises(NotFinite):
        made.step()
    assert made.in_progress == 0
    made.stop()
    with pytest.raises(EngineStopped):
        made.step()
    with pytest.raises(EngineStopped):
        made.admit(joins(1)[0])


def test_fast_mode_chooses_the_same_tokens_when_requests_move() -> None:
    """Its bits may differ in log-probabilities; limits without an end show every length."""
    made, limits = engine(Mode.FAST), Limits(tokens=8, end=-1, vocabulary=SMALL.vocabulary)
    request = Join("r", 1, tuple(tokens_of(SMALL, 6)), Sampling(0), limits)
    made.admit(request)
    whole, _ = finished(made)["r"]
    made.admit(replace(request, given=tuple(each.token for each in whole[:5])))
    assert [each.token for each in finished(made)["r"][0]] == [each.token for each in whole[5:]]
