"""Properties of assignment: overlap, one judgement of a pair by an annotator, balanced sides, hidden controls."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.annotation.campaigns import rounds
from tutti.annotation.campaigns.desk import APART
from tutti.annotation.conftest import Desks, lines, spec
from tutti.annotation.judging import drawing
from tutti.annotation.judging.pairs import Kind, Line, PairDraft, pairs_of, plan
from tutti.annotation.judging.records import StoredJudgement
from tutti.annotation.service import build
from tutti.contracts.annotation.v1 import CAMPAIGN_STATE_PUBLISHED, Overlap, Qualification
from tutti.corpus.conversations.conversations import Answer, Message, Role, from_lines
from tutti.judgements.formats import differ_in_format
from tutti.simulation import Simulation

SEEDS = st.integers(0, (1 << 53) - 1)


def given_pairs(count: int) -> list[PairDraft]:
    return [PairDraft(line.prompt, line.answers) for line in from_lines(Line, lines(count).encode())]


@settings(max_examples=12, deadline=None)
@given(
    seed=SEEDS,
    pairs=st.integers(1, 7),
    annotators=st.integers(1, 4),
    most=st.integers(1, 3),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 8), st.integers(0, 8)), max_size=25),
)
def test_overlap_is_kept_and_nobody_sees_a_pair_twice(
    seed: int, pairs: int, annotators: int, most: int, steps: list[tuple[int, int, int]]
) -> None:
    """Annotators lease and deliver some of what they have, in any order."""
    least = 1
    with Simulation(0, builds={"annotation": build}, rates={}) as world:
        desks = Desks(world)
        desks.create(spec(pairs=pairs, seed=seed, overlap=Overlap(least=least, most=most), controls=0.3))
        names = [f"a{index}" for index in range(annotators)]
        desks.invite(*names)
        judged: dict[str, list[str]] = {name: [] for name in names}
        for index, count, delivered in steps:
            name = names[index % annotators]
            leased = desks.lease(name, count)
            assert len(leased) <= count
            assert not {pair["id"] for pair in leased} & set(judged[name])
            said = [desks.said(name, pair["id"]) for pair in leased[:delivered]]
            if said and desks.state(name)["state"] != "closed":
                judged[name] += desks.deliver(name, *said)["accepted"] and [str(each["pair"]) for each in said]
        for every in judged.values():
            assert len(every) == len(set(every))
        ordinary = world.peek("annotation", lambda unit: needs(unit, desks))
        assert all(least <= needed <= most and given_ <= needed for needed, given_ in ordinary)


def needs(unit, desks: Desks) -> list[tuple[int, int]]:  # type: ignore[no-untyped-def]
    """Judgements that each ordinary pair needs, and how many it was given to."""
    table = desks.world.lives["annotation"][0].parts.host.metadata.tables["pairs"]
    rows = unit.tx.execute(table.select().where(table.c.kind == "ordinary")).all()
    return [(row.needed, row.given) for row in rows]


def test_everybody_together_judges_exactly_what_is_wanted(desks: Desks) -> None:
    desks.create(spec(pairs=9, overlap=Overlap(least=1, most=3), judgements=20, controls=0.25))
    desks.invite("ada", "bob", "eve")
    found = desks.get()
    while found.state != CAMPAIGN_STATE_PUBLISHED:
        for name in ("ada", "bob", "eve"):
            desks.judge_all(name, most=3)
        desks.world.run(max_turns=50)
        found = desks.get()
    assert (found.judgements, found.round) == (20, 2)


@given(seed=SEEDS)
def test_sides_are_balanced(seed: int) -> None:
    count = 400
    flipped = sum(drawing.is_flipped(seed, "a", drawing.pair_id(seed, number)) for number in range(count))
    assert abs(flipped - count / 2) < 5.5 * math.sqrt(count / 4)  # 4e-8 of all seeds are outside


@given(seed=SEEDS, share=st.floats(0.02, 0.49))
def test_each_block_has_one_control_at_a_drawn_place(seed: int, share: float) -> None:
    size = max(2, round(1 / share))
    places = [place for place in range(size * 20) if drawing.is_control(seed, share, "a", place)]
    assert [place // size for place in places] == list(range(20))
    assert not any(drawing.is_control(seed, 0.0, "a", place) for place in range(50))


@settings(max_examples=30)
@given(seed=SEEDS, count=st.integers(1, 40), controls=st.floats(0, 0.49))
def test_a_plan_hides_its_controls_and_knows_nothing_of_writers(seed: int, count: int, controls: float) -> None:
    one = plan(given_pairs(count), seed=seed, controls=controls, qualifying=[], needed=4)
    turned = [PairDraft(each.prompt, each.answers[::-1]) for each in given_pairs(count)]
    other = plan(turned, seed=seed, controls=controls, qualifying=[], needed=4)
    assert [(pair.id, pair.number, pair.kind, pair.base) for pair in one.pairs] == [
        (pair.id, pair.number, pair.kind, pair.base) for pair in other.pairs
    ]
    assert [pair.number for pair in one.pairs] == list(range(len(one.pairs)))
    assert len({pair.id for pair in one.pairs}) == len(one.pairs)
    by_number = {pair.number: pair for pair in one.pairs}
    for pair in one.pairs:
        if pair.kind is Kind.FILLER:
            assert pair.answers[1].startswith(pair.answers[0])
        if pair.kind is Kind.SWAPPED:
            assert (by_number[pair.base].kind, by_number[pair.base].answers) == (Kind.ORDINARY, pair.answers)


def test_controls_in_two_formats_are_made_where_answers_differ_in_format_and_allow_it() -> None:
    def drafts(first: str, second: str) -> list[PairDraft]:
        return [PairDraft((Message(Role.USER, f"p{n}"),), (first.format(n), second.format(n))) for n in range(30)]

    def kinds(given: list[PairDraft]) -> Counter[Kind]:
        made = plan(given, seed=1, controls=0.4, qualifying=[], needed=0).pairs
        for each in made:
            if each.kind is Kind.FORMATTED:
                assert differ_in_format(*each.answers)
        return Counter(each.kind for each in made)

    even = {Kind.ORDINARY: 30, Kind.FILLER: 20, Kind.SWAPPED: 10}
    assert kinds(drafts("Short {}. Good.", "Long {}. Bad.")) == even
    assert kinds(drafts("| a {} | b |", "no table {}")) == even
    formatted = {Kind.ORDINARY: 30, Kind.FILLER: 10, Kind.FORMATTED: 10, Kind.SWAPPED: 10}
    assert kinds(drafts("Short {}. Good.", "- long {}\n- bad")) == formatted
    assert kinds(drafts("- long {}\n- bad", "Short {}. Good.")) == formatted


def test_answers_of_all_samples_to_the_same_prompt_are_paired() -> None:
    def answer(prompt: str, number: int, text: str) -> Answer:
        return Answer((Message(Role.USER, prompt),), number, text, (), "end")

    first = [answer("p", 0, "a"), answer("p", 1, "b"), answer("q", 2, "c")]
    second = [answer("p", 0, "d"), answer("r", 1, "e")]
    found = list(pairs_of([("samples/1", first), ("samples/2", second)]))
    assert sorted(each.answers for each in found) == [("a", "b"), ("a", "d"), ("b", "d")]
    assert ("samples/1#1", "samples/2#0") in [each.sources for each in found]


@pytest.mark.parametrize("texts", [("a", "a"), ("a", "x" * (65 << 10))])
def test_equal_and_endless_answers_are_left_out(texts: tuple[str, str]) -> None:
    prompt = (Message(Role.USER, "p"),)
    made = plan([PairDraft(prompt, texts), PairDraft(prompt, ("", "b"))], seed=0, controls=0, qualifying=[], needed=0)
    assert (made.left_out, [pair.answers for pair in made.pairs]) == (1, [("", "b")])


@given(st.lists(st.integers(0, 30), unique=True, min_size=1), st.integers(1, 3), st.integers(1, 100))
def test_the_first_round_needs_no_more_than_is_wanted(numbers: list[int], least: int, wanted: int) -> None:
    needed = rounds.first(numbers, least, wanted)
    assert sum(needed.values()) == min(wanted, least * len(numbers))
    assert max(needed.values()) - min(needed.values()) <= 1


def test_a_later_round_asks_for_the_pairs_that_are_least_decided() -> None:
    def kept(pair: str, score: int, annotator: str) -> StoredJudgement:
        return StoredJudgement(
            f"{pair}{annotator}", annotator, pair, "ordinary", False, {"helpful": score}, "judged", "g", 900
        )

    said = [kept("a", -2, "x"), kept("a", -1, "y"), kept("b", -2, "x"), kept("b", 2, "y"), kept("c", 1, "x")]
    pairs = [("a", 0, 2), ("b", 1, 2), ("c", 2, 1), ("d", 3, 3)]
    assert rounds.chosen(pairs, said, "helpful", most=3, lacking=2) == ["b", "c"]
    assert rounds.chosen(pairs, said[::-1], "helpful", most=3, lacking=2) == ["b", "c"]


def test_a_pair_that_was_skipped_does_not_return_as_a_control(desks: Desks) -> None:
    desks.create(spec(pairs=30, overlap=Overlap(least=1, most=1), controls=0.4))
    desks.invite("ada")
    kinds = desks.world.peek("annotation", lambda unit: dict(pair_kinds(unit, desks)))
    skipped, given = list[str](), list[str]()
    while pairs := desks.lease("ada", 1):
        (pair,) = pairs
        prompt, kind = pair["prompt"][0]["content"], kinds[pair["id"]]
        given.append(kind)
        assert kind == "ordinary" or prompt not in skipped
        if kind == "ordinary" and len(given) % 2:
            skipped.append(prompt)
            said = desks.said("ada", pair["id"], kind="skipped", answers={}, reason="unclear")
        else:
            said = desks.said("ada", pair["id"])
        assert desks.deliver("ada", said)["refused"] == []
        desks.world.clock.advance(2)
    assert len(skipped) >= 10
    assert len([kind for kind in given if kind != "ordinary"]) >= 5


def pair_kinds(unit, desks: Desks) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    """Id and kind of every pair."""
    table = desks.world.lives["annotation"][0].parts.host.metadata.tables["pairs"]
    return [(row.id, row.kind) for row in unit.tx.execute(table.select()).all()]


def test_a_swapped_control_is_shown_in_the_other_order(desks: Desks) -> None:
    desks.create(spec(pairs=30, overlap=Overlap(least=1, most=1), controls=0.4, qualification=Qualification()))
    desks.invite("ada")
    while desks.judge_all("ada"):
        pass
    shown = [tuple(pair["answers"]) for pair in desks.shown["ada"].values()]
    turned = [each for each in shown if each[::-1] in shown]
    assert turned
    assert len(shown) == len(set(shown))


@pytest.mark.parametrize("seed", range(6))
def test_the_two_orders_of_a_pair_are_far_apart(desks: Desks, seed: int) -> None:
    desks.create(spec(pairs=60, overlap=Overlap(least=1, most=1), controls=0.45, seed=seed))
    desks.invite("ada")
    for count in (8, 1, 5, 8, 3, 8, 2, 8, 8):  # other pairs are left all the time
        given = desks.lease("ada", count)
        desks.deliver("ada", *(desks.said("ada", pair["id"]) for pair in given))
    shown = [tuple(sorted(pair["answers"])) for pair in desks.shown["ada"].values()]
    places = {each: [place for place, other in enumerate(shown) if other == each] for each in shown}
    distances = [found[1] - found[0] for found in places.values() if len(found) == 2]
    assert all(each >= APART for each in distances), distances


def test_the_last_pair_is_given_even_if_its_other_order_was_just_seen(desks: Desks) -> None:
    desks.create(spec(pairs=3, overlap=Overlap(least=1, most=1), controls=0.45))
    desks.invite("ada")
    while desks.judge_all("ada", most=1):
        pass
    desks.until(lambda found: found.judgements == 3)
