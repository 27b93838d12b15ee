"""The weight of an annotator: set for a reason, published, used by fits, shown to the annotator, and undone."""

from typing import Any

import pytest

from tutti.annotation.conftest import Desks, spec
from tutti.annotation.publishing.weighing import counted, proposal
from tutti.annotation.service_test import preferences
from tutti.chassis.errors import InvalidField, NotFound
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_PUBLISHED,
    Annotator,
    Campaign,
    ListAnnotatorsRequest,
    Overlap,
    ReadPreferencesRequest,
    RetractAnnotatorRequest,
    WeighAnnotatorRequest,
)
from tutti.corpus.conversations.conversations import Preference, from_lines
from tutti.corpus.conversations.judgementset import JudgementLine, PairLine
from tutti.judgements.habits import Run

NAME = "campaigns/a"
WHY = "the same key over and over"


def weigh(desks: Desks, key: str, weight: float | None, reason: str = WHY, **changes: Any) -> Annotator:
    request = WeighAnnotatorRequest(campaign=NAME, key=key, weight=weight, reason=reason, **changes)
    return desks.world.insist(lambda: desks.stub.WeighAnnotator(request))


def published(desks: Desks, *, unlike: str = "") -> Campaign:
    return desks.until(
        lambda found: found.state == CAMPAIGN_STATE_PUBLISHED and found.result.content_digest not in ("", unlike)
    )


def annotator(desks: Desks, key: str) -> Annotator:
    found = desks.stub.ListAnnotators(ListAnnotatorsRequest(campaign=NAME)).annotators
    return next(each for each in found if each.key == key)


@pytest.fixture
def judged(desks: Desks) -> Desks:
    """A published campaign in which `ada` prefers the shorter answers, and `eve` the longer ones."""
    desks.create(spec(pairs=4))
    desks.invite("ada", "eve")
    desks.judge_all("ada")
    while pairs := desks.lease("eve"):
        said: list[dict[str, Any]] = [desks.said("eve", pair["id"]) for pair in pairs]
        turned = [each | {"answers": {"helpful": -each["answers"]["helpful"]}} for each in said]
        assert desks.deliver("eve", *turned)["refused"] == []
    published(desks)
    return desks


def body(desks: Desks, key: str) -> bytes:
    return bytes(desks.world.world.blobs.get(key))


def test_a_weight_is_published_with_its_reason_and_the_fit_uses_it(judged: Desks) -> None:
    whole = published(judged).result
    assert b"weight" not in body(judged, whole.manifest_key)
    even = preferences(judged, "even")
    assert weigh(judged, "eve", 0.25).set_weight == 0.25
    less = published(judged, unlike=whole.content_digest)
    assert less.reason == "published anew since the weight of eve was set to 0.25"
    recorded = b'"weights":[{"annotator":"eve","reason":"the same key over and over","weight":0.25}]'
    assert recorded in body(judged, less.result.manifest_key)
    fitted = preferences(judged, "less")
    assert recorded in body(judged, fitted.result.manifest_key)
    assert fitted.result.content_digest != even.result.content_digest
    assert (fitted.judgements, annotator(judged, "eve").weight, annotator(judged, "ada").weight) == (8, 0.25, 1.0)
    read = judged.stub.ReadPreferences(ReadPreferencesRequest(name=fitted.name))
    for line in from_lines(Preference, read.data):
        assert line.judged == (0.8 if len(line.answers[0]) < len(line.answers[1]) else 0.2)


def test_judgements_of_weight_0_are_not_fitted_and_counted_as_excluded(judged: Desks) -> None:
    whole = published(judged).result.content_digest
    weigh(judged, "eve", 0.0)
    published(judged, unlike=whole)
    without = preferences(judged, "without")
    assert (without.judgements, without.annotators, without.pairs) == (4, 1, 4)
    assert b'"NO_WEIGHT":4' in body(judged, without.result.manifest_key)


def test_the_weight_1_undoes_and_the_same_is_published_as_before(judged: Desks) -> None:
    whole = published(judged).result.content_digest
    weigh(judged, "eve", 0.5)
    less = published(judged, unlike=whole)
    again = weigh(judged, "eve", 0.5)
    assert (again.set_weight, judged.get().revision) == (0.5, less.revision)
    weigh(judged, "eve", 1.0, "")
    assert published(judged, unlike=less.result.content_digest).result.content_digest == whole


def test_a_retracted_annotator_leaves_no_weight(judged: Desks) -> None:
    whole = published(judged).result.content_digest
    judged.stub.RetractAnnotator(RetractAnnotatorRequest(campaign=NAME, key="eve", reason="asleep"))
    without = published(judged, unlike=whole)
    weigh(judged, "eve", 0.5)
    assert judged.get().result.content_digest == without.result.content_digest
    assert b"weights" not in body(judged, without.result.manifest_key)


def test_the_annotator_reads_the_weight_and_the_reason(judged: Desks) -> None:
    assert "weight" not in judged.state("eve")
    weigh(judged, "eve", 0.5)
    assert judged.state("eve")["weight"] == {"weight": 0.5, "why": WHY}
    assert "weight" not in judged.state("ada")
    own = judged.call("/annotation/{campaign}/own.json", "eve", campaign="a")
    assert (own["weight"], own["weight_reason"]) == (0.5, WHY)


def test_a_check_changes_nothing(judged: Desks) -> None:
    before = judged.get()
    assert weigh(judged, "eve", 0.5, validate_only=True).set_weight == 0.5
    assert (judged.get(), annotator(judged, "eve").set_weight) == (before, 1.0)


@pytest.mark.parametrize(
    ("weight", "reason", "field"),
    [
        (None, WHY, "weight"),
        (-0.1, WHY, "weight"),
        (1.1, WHY, "weight"),
        (float("nan"), WHY, "weight"),
        (0.5, " ", "reason"),
    ],
)
def test_what_cannot_be_a_weight_is_refused(desks: Desks, weight: float | None, reason: str, field: str) -> None:
    desks.create(spec(pairs=2))
    desks.invite("eve")
    with pytest.raises(InvalidField, match=field):
        weigh(desks, "eve", weight, reason)
    with pytest.raises(NotFound, match="the annotator bob"):
        weigh(desks, "bob", 0.5)


def test_a_weight_is_proposed_to_who_presses_one_key_and_not_applied(desks: Desks) -> None:
    desks.create(spec(pairs=12, overlap=Overlap(least=3, most=3)))
    desks.invite("ada", "bob", "eve")
    desks.judge_all("ada")
    desks.judge_all("bob")
    while pairs := desks.lease("eve"):
        desks.deliver("eve", *(desks.said("eve", pair["id"], score=1) for pair in pairs))
    eve, ada = annotator(desks, "eve"), annotator(desks, "ada")
    assert (eve.proposed_weight, eve.set_weight) == (0.0, 1.0)
    assert eve.proposal == "12 of 12 judgements are a run of one score"
    assert not ada.HasField("proposed_weight")


@pytest.mark.parametrize(
    ("judged", "fast", "run", "proposed"),
    [
        (0, 0, None, None),
        (40, 3, None, None),
        (40, 4, None, 0.9),
        (40, 13, None, 0.6),
        (40, 0, 30, 0.2),
        (40, 10, 30, 0.2),
        (40, 40, 40, 0.0),
    ],
)
def test_the_proposal_is_the_share_of_the_other_judgements(
    judged: int, fast: int, run: int | None, proposed: float | None
) -> None:
    made = proposal(judged, fast, None if run is None else Run(1, run))
    assert (None if made is None else made.value) == proposed
    if made is not None:
        assert made.reason.count(f"of {judged} judgements") == (fast >= 4) + (run is not None)


def test_lines_without_weight_are_left_out_with_pairs_that_nobody_else_judged() -> None:
    pairs = [PairLine(number, "ordinary", (), ("a", "b")) for number in range(2)]
    said = [JudgementLine(*each, "g", True, {}) for each in ((0, "ada"), (0, "eve"), (1, "eve"))]
    assert counted((pairs, said), {"eve": 0.5}) == (pairs, said)
    assert counted((pairs, said), {"eve": 0.0}) == (pairs[:1], said[:1])
