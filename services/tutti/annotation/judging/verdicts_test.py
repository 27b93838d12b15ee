"""The effects of an owner's verdict on a pair, and of the retraction of a guideline."""

from collections.abc import Mapping
from typing import Any

import pytest

from tutti.annotation.conftest import Desks, judgement_id, lines, spec
from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PUBLISHED,
    VERDICT_KEPT,
    VERDICT_LEFT_OUT,
    Campaign,
    Guideline,
    ListGuidelinesRequest,
    Overlap,
    RetractAnnotatorRequest,
    RetractGuidelineRequest,
    SettlePairRequest,
    UpdateGuidelineRequest,
    Verdict,
)

NAME = "campaigns/a"
NEW = "Prefer the answer that is true."


def settle(
    desks: Desks, pair: str, verdict: Verdict.ValueType = VERDICT_LEFT_OUT, reason: str = "broken", **changes: Any
) -> None:
    request = SettlePairRequest(campaign=NAME, pair=pair, verdict=verdict, reason=reason, **changes)
    desks.world.insist(lambda: desks.stub.SettlePair(request))


def published(desks: Desks) -> Campaign:
    return desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)


def judged_by(desks: Desks, *users: str) -> None:
    desks.invite(*users)
    for user in users:
        desks.judge_all(user)


def content(desks: Desks) -> str:
    return published(desks).result.content_digest


def test_a_pair_that_is_left_out_is_given_to_nobody_and_the_campaign_goes_on_without_it(desks: Desks) -> None:
    desks.create(spec(pairs=4))
    desks.invite("ada", "bob")
    first = desks.lease("ada", 1)[0]["id"]
    desks.deliver("ada", desks.said("ada", first, kind="flagged", reason="harmful", answers={}))
    settle(desks, first)
    campaign = desks.get()
    assert (campaign.pairs, campaign.settled_out, campaign.wanted) == (4, 1, 6)
    assert [desks.judge_all("ada"), desks.judge_all("bob")] == [3, 3]
    assert published(desks).judgements == 6


def test_a_pair_that_is_left_out_is_taken_back_from_who_has_it(desks: Desks) -> None:
    desks.create(spec(pairs=4))
    desks.invite("ada")
    given = [pair["id"] for pair in desks.lease("ada", 4)]
    settle(desks, given[1])
    assert [pair["id"] for pair in desks.lease("ada", 4)] == [given[0], *given[2:]]
    late = desks.deliver("ada", desks.said("ada", given[1]))
    assert late["refused"] == []
    desks.judge_all("ada")
    judged_by(desks, "bob")
    assert published(desks).judgements == 6


def test_what_is_published_is_as_if_the_pair_had_not_been_judged_and_can_be_undone(desks: Desks) -> None:
    desks.create(spec(pairs=4, overlap=Overlap(least=1, most=1)))
    judged_by(desks, "ada")
    whole, pair = content(desks), desks.lease_ids("ada")[0]
    settle(desks, pair)
    campaign = desks.until(lambda found: found.result.content_digest != whole)
    assert (published(desks).judgements, campaign.settled_out) == (3, 1)
    assert "published anew" in campaign.reason
    settle(desks, pair, VERDICT_KEPT)
    desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED and found.result.content_digest == whole)


def test_controls_that_show_its_answers_are_left_out_with_a_pair(desks: Desks) -> None:
    desks.create(spec(pairs=6, controls=0.4, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    desks.judge_all("ada", most=4)
    shown: Mapping[str, Any] = desks.shown["ada"]
    for pair, each in shown.items():
        settle(desks, pair)
        assert not [other for other in desks.lease("ada") if other["prompt"] == each["prompt"]]
        break


def test_a_verdict_that_changes_nothing_publishes_nothing_anew(desks: Desks) -> None:
    desks.create(spec(pairs=2, overlap=Overlap(least=1, most=1)))
    judged_by(desks, "ada")
    before = content(desks)
    settle(desks, desks.lease_ids("ada")[0], VERDICT_KEPT, reason="")
    after = desks.get()
    assert (after.state, after.result.content_digest) == (CAMPAIGN_STATE_PUBLISHED, before)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"verdict": 0}, "verdict"), ({"reason": " "}, "reason"), ({"reason": "x" * 501}, "reason")],
)
def test_a_verdict_needs_a_reason(desks: Desks, changes: dict[str, Any], field: str) -> None:
    desks.create(spec(pairs=2))
    desks.invite("ada")
    given = {"pair": desks.lease("ada")[0]["id"], "verdict": VERDICT_LEFT_OUT, "reason": "broken"}
    with pytest.raises(InvalidField) as caught:
        settle(desks, **given | changes)
    assert caught.value.field == field
    with pytest.raises(NotFound):
        settle(desks, "0" * 16)
    settle(desks, given["pair"], validate_only=True)
    assert desks.get().settled_out == 0


def versions(desks: Desks) -> list[Guideline]:
    return list(desks.stub.ListGuidelines(ListGuidelinesRequest(campaign=NAME)).guidelines)


def retract(desks: Desks, version: str, reason: str = "it was wrong", **changes: Any) -> Guideline:
    request = RetractGuidelineRequest(campaign=NAME, version=version, reason=reason, **changes)
    found: Guideline = desks.world.insist(lambda: desks.stub.RetractGuideline(request))
    return found


def replace_guideline(desks: Desks, text: str = NEW) -> None:
    desks.world.insist(lambda: desks.stub.UpdateGuideline(UpdateGuidelineRequest(name=NAME, text=text)))


def judge_again(desks: Desks, user: str) -> int:
    """Judge what is given under the guideline in force, with ids of their own."""
    desks.call("/annotation/api/guideline", user, {"campaign": "a", "version": desks.get().guideline})
    count = 0
    while pairs := desks.lease(user):
        said = [desks.said(user, each["id"], id=judgement_id("again", user, each["id"])) for each in pairs]
        assert desks.deliver(user, *said)["refused"] == []
        count += len(pairs)
    return count


def test_what_was_judged_under_a_retracted_guideline_is_judged_again_by_the_same_people(desks: Desks) -> None:
    desks.create(spec(pairs=3))
    desks.invite("ada", "bob")
    assert desks.judge_all("ada") == 3
    old = desks.get().guideline
    replace_guideline(desks)
    assert [(each.current, each.judgements, each.title) for each in versions(desks)] == [
        (False, 3, "Prefer the shorter answer."),
        (True, 0, NEW),
    ]
    assert retract(desks, old, validate_only=True).retracted == ""
    assert (retract(desks, old).retracted, desks.get().judgements) == ("it was wrong", 0)
    assert desks.state("ada")["retracted"] == 1
    assert [judge_again(desks, "ada"), judge_again(desks, "bob")] == [3, 3]
    assert published(desks).judgements == 6


def test_a_published_set_is_that_of_the_other_versions_alone(desks: Desks) -> None:
    desks.create(spec(pairs=2))
    desks.invite("ada", "bob")
    desks.judge_all("ada")
    old = desks.get().guideline
    replace_guideline(desks)
    judge_again(desks, "bob")
    whole = content(desks)
    retract(desks, old)
    alone = desks.until(lambda found: found.result.content_digest not in ("", whole)).result.content_digest
    assert published(desks).judgements == 2
    request = RetractAnnotatorRequest(campaign=NAME, key="ada", reason="the same judgements in another way")
    desks.world.insist(lambda: desks.stub.RetractAnnotator(request))
    desks.world.run(until=lambda: desks.get().state == CAMPAIGN_STATE_PUBLISHED)
    assert desks.get().result.content_digest == alone


def test_the_guideline_in_force_is_replaced_before_it_is_retracted(desks: Desks) -> None:
    desks.create(spec(pairs=2))
    old = desks.get().guideline
    with pytest.raises(Refused, match="replace the guideline first") as caught:
        retract(desks, old)
    assert caught.value.reason == "GUIDELINE_IN_FORCE"
    replace_guideline(desks)
    retract(desks, old)
    assert retract(desks, old, "again").retracted == "it was wrong"
    with pytest.raises(Refused, match="expected another text"):
        replace_guideline(desks, "Prefer the shorter answer.")
    with pytest.raises(NotFound):
        retract(desks, "blake3:" + "0" * 64)
    assert desks.get().state == CAMPAIGN_STATE_OPEN


def test_pairs_that_were_flagged_stay_flagged_when_a_guideline_is_retracted(desks: Desks) -> None:
    desks.create(spec(pairs=lines(2)))
    desks.invite("ada")
    flagged = desks.lease("ada", 1)[0]["id"]
    desks.deliver("ada", desks.said("ada", flagged, kind="flagged", reason="harmful", answers={}))
    desks.judge_all("ada")
    old = desks.get().guideline
    replace_guideline(desks)
    retract(desks, old)
    assert judge_again(desks, "ada") == 1
