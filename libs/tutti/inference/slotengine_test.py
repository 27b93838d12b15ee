"""The contract of an engine, and the exactness of ours: decoding has the bits of a leaf's forward."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from tutti.inference import slots
from tutti.inference.decoder import Decoder
from tutti.inference.decoder_test import MODEL, parameters, tokens_of
from tutti.inference.engine import (
    Completion,
    Engine,
    EngineBusy,
    EngineStopped,
    Mode,
    NotExact,
    Request,
    RequestRefused,
    Tokens,
    Weights,
    generate,
)
from tutti.inference.errors import NotFinite, PromptTooLong
from tutti.inference.generation import generate as reference_generate
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling
from tutti.inference.slotengine import SlotEngine
from tutti.inference.slots import slots_together
from tutti.model.chunks import Layout
from tutti.model.spec import ModelSpec

SMALL = replace(MODEL, width=64, hidden=160)
END = SMALL.vocabulary - 1
LIMITS = Limits(tokens=10, end=END, vocabulary=SMALL.vocabulary)
SAMPLING = Sampling(seed=5)
Make = Callable[[ModelSpec], tuple[Engine, Weights]]


def make(mode: Mode, *, query_rows: int = 4, seed: int = 1) -> Make:
    def made(model: ModelSpec) -> tuple[Engine, Weights]:
        layout, vector = parameters(model, seed)
        engine = SlotEngine(layout, rows=2, mode=mode, slots=8, query_rows=query_rows)
        return engine, Weights(f"seed-{seed}", vector)

    return made


def requests(count: int, model: ModelSpec = SMALL) -> list[Request]:
    return [Request(100 + k, tuple(tokens_of(model, 1 + 3 * k % 17, seed=k // 2))) for k in range(count)]


@pytest.fixture(params=list(Mode))
def engine(request: pytest.FixtureRequest) -> Engine:
    made, weights = make(request.param)(SMALL)
    made.start(weights)
    return made


def same(one: Completion, other: Completion) -> bool:
    return (one.number, one.tokens, one.stop) == (other.number, other.tokens, other.stop) and np.array_equal(
        one.logprobs, other.logprobs
    )


def test_a_scalar_head_changes_no_completion() -> None:
    layout, vector = parameters(SMALL)
    headed = Layout(replace(SMALL, scalar_head=True))
    with_head = torch.cat([vector, torch.ones(headed.elements - layout.elements)])
    completions = []
    for each, its_vector in ((layout, vector), (headed, with_head)):
        engine = SlotEngine(each, rows=2, mode=Mode.EXACT, slots=8)
        engine.start(Weights("weights", its_vector))
        completions.append(generate(engine, requests(3), SAMPLING, LIMITS))
    assert all(same(one, other) for one, other in zip(*completions, strict=True))


def test_a_completion_does_not_depend_on_what_is_generated_beside_it(engine: Engine) -> None:
    together = generate(engine, requests(19), SAMPLING, LIMITS)
    for one, request in zip(together, requests(19), strict=True):
        assert same(one, generate(engine, [request], SAMPLING, LIMITS)[0])
    backwards = generate(engine, requests(19)[::-1], SAMPLING, LIMITS)
    assert all(same(one, other) for one, other in zip(together, backwards[::-1], strict=True))


@pytest.mark.parametrize("count", [16, 20])
def test_answers_to_one_prompt_are_those_that_are_generated_alone(engine: Engine, count: int) -> None:
    asked = [Request(k, tuple(tokens_of(SMALL, 5, seed=k // 4))) for k in range(count)]
    together = generate(engine, asked, SAMPLING, LIMITS)
    assert len({one.tokens for one in together}) == count
    for one, request in zip(together, asked, strict=True):
        assert same(one, generate(engine, [request], SAMPLING, LIMITS)[0])


def test_control_another_number_draws_another_completion(engine: Engine) -> None:
    [one] = generate(engine, [Request(1, (3, 4))], SAMPLING, LIMITS)
    [other] = generate(engine, [Request(2, (3, 4))], SAMPLING, LIMITS)
    assert one.tokens != other.tokens


def test_the_stream_yields_every_token_of_every_completion(engine: Engine) -> None:
    tokens: dict[int, list[int]] = {}
    for event in engine.stream(requests(12), SAMPLING, LIMITS):
        if isinstance(event, Tokens):
            for number, token in zip(event.numbers, event.tokens.tolist(), strict=True):
                tokens.setdefault(number, []).append(token)
        else:
            assert tokens[event.number] == list(event.tokens)
            assert len(event.logprobs) == len(event.tokens)
            assert (event.logprobs <= 0).all()
            assert (event.stop is Stop.END) == (event.tokens[-1] == END)
    assert len(tokens) == 12


def test_the_log_probabilities_are_those_that_scoring_gives(engine: Engine) -> None:
    found = generate(engine, requests(9), SAMPLING, LIMITS)
    scores = engine.score([(*each.prompt, *one.tokens) for each, one in zip(requests(9), found, strict=True)])
    for request, one, row in zip(requests(9), found, scores, strict=True):
        seen = row[len(request.prompt) - 1 :]
        if engine.mode is Mode.EXACT:
            assert np.array_equal(seen, one.logprobs)
        np.testing.assert_allclose(seen, one.logprobs, atol=1e-4)


def test_the_tokens_are_those_of_the_decoder_that_reads_one_text_at_a_time(engine: Engine) -> None:
    [one] = generate(engine, requests(6)[5:], Sampling(temperature=0), LIMITS)
    decoder = Decoder(*parameters(SMALL))
    [other] = reference_generate(decoder, [requests(6)[5].prompt], Sampling(temperature=0), LIMITS)
    assert tuple(token for token in one.tokens if token != END) == other.tokens


@pytest.mark.parametrize(
    ("length", "query_rows", "expected"),
    [(32, 4, 4), (128, 4, 4), (144, 4, 2), (272, 4, 1), (32, 2, 2), (32, 1, 1), (28, 4, 1), (40, 4, 1)],
)
def test_slots_share_products_where_each_sums_in_its_own_order(length: int, query_rows: int, expected: int) -> None:
    assert slots_together(length, query_rows) == expected


def test_slots_that_must_not_share_products_on_this_machine_are_decoded_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    together = list[int]()

    def shared(*_: int) -> int:
        together.append(4)
        return 4

    monkeypatch.setattr(slots, "slots_together", shared)  # as on a machine with wider registers than ours
    layout, vector = parameters(SMALL)
    engine = SlotEngine(layout, rows=2, mode=Mode.EXACT, slots=8, length=28)
    engine.start(Weights("mine", vector))
    [one] = generate(engine, requests(1), SAMPLING, LIMITS)
    [row] = engine.score([(*requests(1)[0].prompt, *one.tokens)])
    assert together == [4]
    assert np.array_equal(row[len(requests(1)[0].prompt) - 1 :], one.logprobs)


def test_a_text_ends_where_the_context_does(engine: Engine) -> None:
    prompt = tuple(tokens_of(SMALL, SMALL.context - 2))
    [one] = generate(engine, [Request(0, prompt)], SAMPLING, Limits(tokens=10, end=-1, vocabulary=SMALL.vocabulary))
    assert (len(one.tokens), one.stop) == (2, Stop.CONTEXT)


@pytest.mark.parametrize("place", [3, 19])
def test_what_is_cancelled_ends_with_what_it_has(engine: Engine, place: int) -> None:
    """The last of twenty waits for a slot: an engine has at least sixteen."""
    whole = generate(engine, requests(20), SAMPLING, LIMITS)
    found = {}
    for event in engine.stream(requests(20), SAMPLING, LIMITS):
        if isinstance(event, Tokens):
            engine.cancel(100 + place)
        else:
            found[event.number] = event
    assert found[100 + place].stop is Stop.CANCELLED
    assert len(found[100 + place].tokens) < len(whole[place].tokens)
    assert all(same(found[each.number], each) for each in whole if each.number != 100 + place)
    engine.cancel(100 + place)


def test_weights_are_swapped_by_digest_between_generations(engine: Engine) -> None:
    before = generate(engine, requests(3), SAMPLING, LIMITS)
    stream = engine.stream(requests(3), SAMPLING, LIMITS)
    next(stream)
    other = make(Mode.FAST, seed=2)(SMALL)[1]
    with pytest.raises(EngineBusy, match="3 sequences are in progress"):
        engine.swap(other)
    stream.close()  # type: ignore[attr-defined]
    engine.swap(other)
    assert engine.digest == "seed-2"
    after = generate(engine, requests(3), SAMPLING, LIMITS)
    assert [one.tokens for one in before] != [one.tokens for one in after]
    engine.swap(make(Mode.FAST)(SMALL)[1])
    assert all(map(same, before, generate(engine, requests(3), SAMPLING, LIMITS)))


def test_values_that_are_overwritten_in_place_are_other_weights_by_their_digest() -> None:
    engine, weights = make(Mode.EXACT)(SMALL)
    engine.start(weights)
    before = generate(engine, requests(3), SAMPLING, LIMITS)
    weights.vector.mul_(float("nan"))
    engine.swap(Weights("diverged", weights.vector))
    with pytest.raises(NotFinite, match="diverged"):
        generate(engine, requests(3), SAMPLING, LIMITS)
    weights.vector.copy_(parameters(SMALL)[1])
    engine.swap(Weights("again", weights.vector))
    assert all(map(same, before, generate(engine, requests(3), SAMPLING, LIMITS)))


def test_requests_that_cannot_be_served_are_refused_before_the_first_token(engine: Engine) -> None:
    with pytest.raises(PromptTooLong, match="shorten it by at least 1"):
        engine.stream([Request(0, (1,) * SMALL.context)], SAMPLING, LIMITS)
    with pytest.raises(RequestRefused, match="two requests have the number 7"):
        engine.stream([Request(7, (1,)), Request(7, (2,))], SAMPLING, LIMITS)
    with pytest.raises(PromptTooLong, match="text 1 has 34 tokens; expected 1 to 33"):
        engine.score([(1, 2), (1,) * 34])


def test_an_engine_that_was_stopped_says_so(engine: Engine) -> None:
    engine.stop()
    for call in (
        lambda: engine.digest,
        lambda: engine.score([(1, 2)]),
        lambda: engine.cancel(1),
        lambda: engine.stream([], SAMPLING, LIMITS),
    ):
        with pytest.raises(EngineStopped, match="start it first"):
            call()


def test_parameters_that_are_not_finite_are_named() -> None:
    layout = Layout(SMALL)
    engine = SlotEngine(layout, rows=2, mode=Mode.EXACT)
    with pytest.raises(NotExact, match="not finite"):
        engine.start(Weights("none", torch.full((layout.elements,), float("nan"))))
