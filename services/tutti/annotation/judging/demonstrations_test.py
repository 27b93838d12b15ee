"""Better answers that annotators write: they arrive once with a judgement, and a second person reviews them."""

import json

import pytest

from tutti.annotation.conftest import Desks, judgement_id, spec
from tutti.annotation.judging import demonstrations
from tutti.annotation.judging.judgements import LONGEST_ANSWER
from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.contracts.annotation.v1 import (
    DEMONSTRATION_STATE_ACCEPTED,
    DEMONSTRATION_STATE_REJECTED,
    DEMONSTRATION_STATE_WITHDRAWN,
    DEMONSTRATION_STATE_WRITTEN,
    VERDICT_KEPT,
    VERDICT_LEFT_OUT,
    Demonstration,
    EraseAnnotatorRequest,
    ListWrittenDemonstrationsRequest,
    Overlap,
    RetractAnnotatorRequest,
    RetractGuidelineRequest,
    ReviewDemonstrationRequest,
    SettlePairRequest,
    UpdateGuidelineRequest,
)

NAME, BETTER = "campaigns/a", "An answer that is  better \u2028\n<b>than</b> both."


def listed(desks: Desks) -> list[Demonstration]:
    found, token = list[Demonstration](), ""
    while True:
        page = desks.stub.ListWrittenDemonstrations(ListWrittenDemonstrationsRequest(campaign=NAME, page_token=token))
        found += page.demonstrations
        token = page.next_page_token
        if not token:
            return found


def review(desks: Desks, id: str, *, accepted: bool = True, reason: str = "") -> Demonstration:
    request = ReviewDemonstrationRequest(campaign=NAME, id=id, accepted=accepted, reason=reason)
    return desks.world.insist(lambda: desks.stub.ReviewDemonstration(request))


def written(desks: Desks, user: str = "ada") -> Demonstration:
    """A demonstration of a campaign of its own."""
    desks.create(spec(pairs=3, overlap=Overlap(least=1, most=1)))
    desks.invite(user)
    pair = desks.lease(user)[0]["id"]
    said = desks.said(user, pair, demonstration=f"  {BETTER}\n")
    for _ in range(2):
        assert desks.deliver(user, said)["accepted"] == [said["id"]]
    (found,) = listed(desks)
    return found


def test_it_is_withdrawn_with_its_pair_and_with_its_guideline(desks: Desks) -> None:
    found = written(desks)
    review(desks, found.id)
    pair = next(iter(desks.shown["ada"]))
    settled = SettlePairRequest(campaign=NAME, pair=pair, verdict=VERDICT_LEFT_OUT, reason="broken")
    desks.world.insist(lambda: desks.stub.SettlePair(settled))
    assert [each.state for each in listed(desks)] == [DEMONSTRATION_STATE_WITHDRAWN]
    settled.verdict = VERDICT_KEPT
    desks.world.insist(lambda: desks.stub.SettlePair(settled))
    assert [each.state for each in listed(desks)] == [DEMONSTRATION_STATE_ACCEPTED]
    old = desks.get().guideline
    update = UpdateGuidelineRequest(name=NAME, text="Prefer the longer answer.")
    desks.world.insist(lambda: desks.stub.UpdateGuideline(update))
    retract = RetractGuidelineRequest(campaign=NAME, version=old, reason="wrong")
    desks.world.insist(lambda: desks.stub.RetractGuideline(retract))
    assert [each.state for each in listed(desks)] == [DEMONSTRATION_STATE_WITHDRAWN]
    with pytest.raises(Refused, match="is withdrawn"):
        review(desks, found.id)


def test_what_an_annotator_wrote_is_counted_and_then_deleted(desks: Desks) -> None:
    found = written(desks)
    said = desks.said("ada", desks.lease("ada")[0]["id"], comment="hm")
    assert desks.deliver("ada", said)["refused"] == []
    body = {"campaign": "a", "id": judgement_id("message"), "words": "Why?"}
    desks.call("/annotation/api/messages", "ada", body)
    request = EraseAnnotatorRequest(campaign=NAME, key="ada", validate_only=True)
    for _ in range(2):
        counted = desks.world.insist(lambda: desks.stub.EraseAnnotator(request))
        assert (counted.comments, counted.messages, counted.demonstrations) == (1, 1, 1)
        request.validate_only = False
    counted = desks.world.insist(lambda: desks.stub.EraseAnnotator(request))
    assert (counted.comments, counted.messages, counted.demonstrations) == (0, 0, 0)
    assert listed(desks) == []
    own = desks.call("/annotation/{campaign}/own.json", "ada", campaign="a")
    assert found.id in {each["id"] for each in own["judgements"]}
    assert {each["comment"] for each in own["judgements"]} == {""}
    with pytest.raises(NotFound):
        desks.stub.EraseAnnotator(EraseAnnotatorRequest(campaign=NAME, key="bob"))


def test_it_arrives_once_with_its_judgement_and_is_accepted_by_a_second_person(desks: Desks) -> None:
    found = written(desks)
    assert (found.annotator, found.state, found.reviewer) == ("ada", DEMONSTRATION_STATE_WRITTEN, "")
    *asked, answer = json.loads(found.line)["messages"]
    assert asked[-1]["content"].startswith("question ")
    assert answer == {"role": "assistant", "content": BETTER}
    accepted = review(desks, found.id)
    assert (accepted.state, accepted.reviewer) == (DEMONSTRATION_STATE_ACCEPTED, "users/operator")
    rejected = review(desks, found.id, accepted=False, reason="it is not true")
    assert (rejected.state, rejected.reason) == (DEMONSTRATION_STATE_REJECTED, "it is not true")
    assert listed(desks) == [rejected]
    own = desks.call("/annotation/{campaign}/own.json", "ada", campaign="a")
    assert [each["demonstration"] for each in own["judgements"]] == [BETTER]


def test_nobody_reviews_an_answer_of_his_or_her_own(desks: Desks) -> None:
    found = written(desks, "operator")
    with pytest.raises(Refused, match="users/operator wrote this demonstration; expected a review by a second person"):
        review(desks, found.id)
    assert listed(desks) == [found]


def test_an_undone_judgement_withdraws_it_and_so_does_a_retraction(desks: Desks) -> None:
    found = written(desks)
    pair = desks.lease_ids("ada")[-1]
    again = desks.said("ada", pair, id=judgement_id("again"), supersedes=found.id, demonstration="Another one.")
    assert desks.deliver("ada", again)["refused"] == []
    states = {each.id: each.state for each in listed(desks)}
    assert states == {found.id: DEMONSTRATION_STATE_WITHDRAWN, again["id"]: DEMONSTRATION_STATE_WRITTEN}
    with pytest.raises(Refused, match="is withdrawn"):
        review(desks, found.id)
    review(desks, str(again["id"]))
    desks.stub.RetractAnnotator(RetractAnnotatorRequest(campaign=NAME, key="ada", reason="on request"))
    assert {each.state for each in listed(desks)} == {DEMONSTRATION_STATE_WITHDRAWN}


def test_pages_have_each_once(desks: Desks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrations, "PAGE", 2)
    desks.create(spec(pairs=5, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    said = [desks.said("ada", each["id"], demonstration=f"answer {each['id']}") for each in desks.lease("ada")]
    assert desks.deliver("ada", *said)["refused"] == []
    assert [each.id for each in listed(desks)] == sorted(str(each["id"]) for each in said)


def test_what_cannot_be_kept_or_reviewed_is_refused(desks: Desks) -> None:
    found = written(desks)
    pair = desks.lease("ada")[0]["id"]
    for answer in ("x" * (LONGEST_ANSWER + 1), "a\0b", "\ud800", 7):
        receipt = desks.deliver("ada", desks.said("ada", pair, demonstration=answer))
        assert [each["reason"] for each in receipt["refused"]] == ["MALFORMED"]
    with pytest.raises(InvalidField, match="reason"):
        review(desks, found.id, accepted=False)
    with pytest.raises(InvalidField, match="reason"):
        review(desks, found.id, reason="x" * 501)
    with pytest.raises(NotFound, match="the demonstration nothing of campaigns/a"):
        review(desks, "nothing")
    assert listed(desks) == [found]
