"""What annotation promises about campaigns, from pairs to a published set of judgements."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tutti.annotation.conftest import Desks, judgement_id, lines, spec
from tutti.annotation.judging.pairs import FILLER
from tutti.annotation.service import build
from tutti.backbone.database import Contention, DatabaseUnavailable
from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound, Refused
from tutti.contracts.annotation.v1 import (
    ANNOTATOR_STATE_ACTIVE,
    ANNOTATOR_STATE_INVITED,
    ANNOTATOR_STATE_RETRACTED,
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PAUSED,
    CAMPAIGN_STATE_PUBLISHED,
    CAMPAIGN_STATE_QUALIFYING,
    AnnotatorRetracted,
    Axis,
    CloneCampaignRequest,
    CloseCampaignRequest,
    CreateCampaignRequest,
    CreatePreferencesRequest,
    ExtendCampaignRequest,
    InviteAnnotatorRequest,
    JudgementsAccepted,
    ListAnnotatorsRequest,
    Overlap,
    PauseCampaignRequest,
    PreferencesSpec,
    Qualification,
    ReadGuidelineRequest,
    ReadPreferencesRequest,
    RequalifyAnnotatorRequest,
    ResumeCampaignRequest,
    RetractAnnotatorRequest,
    UpdateGuidelineRequest,
)
from tutti.contracts.common.v1 import STATE_DONE, GetRequest
from tutti.corpus.conversations.conversations import Preference, from_lines
from tutti.simulation import Simulation
from tutti.simulation.faults import Fault

NAME = "campaigns/a"


def test_a_campaign_closes_when_it_has_its_judgements_and_publishes_preferences(desks: Desks) -> None:
    campaign = desks.create(spec(pairs=6))
    assert (campaign.state, campaign.pairs, campaign.wanted) == (CAMPAIGN_STATE_OPEN, 6, 12)
    desks.invite("ada", "bob")
    assert [desks.judge_all("ada"), desks.judge_all("bob")] == [6, 6]
    campaign = desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    assert campaign.judgements == 12
    assert desks.state("ada")["state"] == "closed"
    found = preferences(desks, "one")
    assert (found.pairs, found.judgements, found.annotators, found.simulated) == (6, 12, 2, False)
    assert not found.identified
    read = desks.world.insist(lambda: desks.stub.ReadPreferences(ReadPreferencesRequest(name=found.name)))
    for line in from_lines(Preference, read.data):
        shorter_first = len(line.answers[0]) < len(line.answers[1])
        assert (line.first > 0.5) == shorter_first
    estimated = desks.stub.ListAnnotators(ListAnnotatorsRequest(campaign=NAME)).annotators
    assert [each.key for each in estimated] == ["ada", "bob"]
    assert all(each.judged == 6 and each.sharpness.value > 0 for each in estimated)


def preferences(desks: Desks, name: str):  # type: ignore[no-untyped-def]
    campaign = desks.get()
    result = PreferencesSpec(
        campaign=NAME, manifest_key=campaign.result.manifest_key, content_digest=campaign.result.content_digest
    )
    request = CreatePreferencesRequest(request_id=name, name=f"preferences/{name}", spec=result)
    desks.world.insist(lambda: desks.stub.CreatePreferences(request))
    asked = GetRequest(name=f"preferences/{name}")
    desks.world.run(until=lambda: desks.world.insist(lambda: desks.stub.GetPreferences(asked)).state >= STATE_DONE)
    found = desks.world.insist(lambda: desks.stub.GetPreferences(asked))
    assert found.state == STATE_DONE, found.reason
    return found


def test_a_lease_that_is_asked_for_again_is_the_same_one(desks: Desks) -> None:
    desks.create(spec(pairs=12))
    desks.invite("ada")
    first = desks.lease("ada", 3)
    assert desks.lease("ada", 3) == first
    assert desks.lease("ada", 5)[:3] == first
    desks.deliver("ada", desks.said("ada", first[0]["id"]))
    assert first[0] not in desks.lease("ada", 8)


def test_a_judgement_is_accepted_once_and_its_id_names_it_alone(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    pair = desks.lease("ada")[0]["id"]
    said = desks.said("ada", pair)
    assert desks.deliver("ada", said) == {"accepted": [said["id"]], "refused": [], "done": 1}
    assert desks.deliver("ada", said) == {"accepted": [said["id"]], "known": [said["id"]], "refused": [], "done": 1}
    again = desks.deliver("ada", said | {"answers": {"helpful": 0}})
    assert [each["reason"] for each in again["refused"]] == ["ID_REUSED"]
    other = desks.deliver("ada", said | {"id": judgement_id("other tab")})
    assert [each["reason"] for each in other["refused"]] == ["ALREADY_JUDGED"]


def test_a_judgement_can_be_superseded_once(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    pair = desks.lease("ada")[0]["id"]
    first = desks.said("ada", pair)
    second = desks.said("ada", pair, 0, id=judgement_id(2), supersedes=first["id"])
    third = desks.said("ada", pair, 1, id=judgement_id(3), supersedes=first["id"])
    assert desks.deliver("ada", first, second)["done"] == 1
    refused = desks.deliver("ada", third)["refused"]
    assert [each["reason"] for each in refused] == ["SUPERSEDED"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pair": "0" * 16}, "UNASSIGNED"),
        ({"guideline": "blake3:" + "0" * 64}, "OLD_GUIDELINE"),
        ({"answers": {"helpful": 3}}, "SCORE_OUT_OF_RANGE"),
        ({"answers": {"helpful": True}}, "SCORE_OUT_OF_RANGE"),
        ({"answers": {"helpful": "bad"}}, "SCORE_OUT_OF_RANGE"),
        ({"answers": {"helpful": 1, "kind": 1}}, "UNKNOWN_AXIS"),
        ({"answers": {}}, "MISSING_AXIS"),
        ({"answers": [1]}, "MALFORMED"),
        ({"id": "1"}, "MALFORMED"),
        ({"kind": "liked"}, "MALFORMED"),
        ({"shown_ms": "long"}, "MALFORMED"),
        ({"comment": "x" * 4001}, "MALFORMED"),
        ({"comment": "a\0b"}, "MALFORMED"),
        ({"shown_at": 1}, "MALFORMED"),
        ({"supersedes": judgement_id("nothing")}, "SUPERSEDED"),
    ],
)
def test_what_cannot_be_accepted_is_refused_with_a_reason(desks: Desks, change: dict[str, object], reason: str) -> None:
    desks.create(spec())
    desks.invite("ada")
    pair = desks.lease("ada")[0]["id"]
    receipt = desks.deliver("ada", desks.said("ada", pair) | change)
    assert [each["reason"] for each in receipt["refused"]] == [reason]
    assert receipt["accepted"] == []
    assert receipt["done"] == 0


def test_one_bad_judgement_does_not_harm_the_others(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    pairs = [pair["id"] for pair in desks.lease("ada", 3)]
    receipt = desks.deliver("ada", desks.said("ada", pairs[0]), desks.said("ada", pairs[1], 9), "nonsense")  # type: ignore[arg-type]
    assert receipt["accepted"] == [judgement_id("a", "ada", pairs[0])]
    assert [each["reason"] for each in receipt["refused"]] == ["SCORE_OUT_OF_RANGE", "MALFORMED"]


def test_a_pair_that_another_annotator_was_given_is_refused(desks: Desks) -> None:
    desks.create(spec(pairs=2, overlap=Overlap(least=1, most=1)))
    desks.invite("ada", "bob")
    pair = desks.lease("ada")[0]["id"]
    assert desks.lease("bob") == []
    desks.shown["bob"][pair] = desks.shown["ada"][pair]
    receipt = desks.deliver("bob", desks.said("bob", pair))
    assert [each["reason"] for each in receipt["refused"]] == ["UNASSIGNED"]
    assert (receipt["accepted"], receipt["done"]) == ([], 0)
    assert desks.deliver("ada", desks.said("ada", pair))["done"] == 1


def test_annotators_see_their_agreement_with_controls_after_blocks_of_twenty_pairs(desks: Desks) -> None:
    desks.create(spec(pairs=50, controls=0.3, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    controls, judged, expected, seen = list[bool](), 0, None, set[int]()  # controls of equal answers, by arrival
    while pairs := desks.lease("ada", 1):
        score = None
        if any(answer.endswith(FILLER) for answer in pairs[0]["answers"]):
            controls.append(len(controls) % 3 > 0)
            score = 0 if controls[-1] else 2
        desks.world.clock.advance(1)
        assert desks.deliver("ada", desks.said("ada", pairs[0]["id"], score))["refused"] == []
        judged += 1
        if judged % 20 == 0 and len(controls) - (expected or {"of": 0})["of"] >= 5:
            expected = {"of": len(controls), "agreed": sum(controls)}
            seen.add(judged)
        assert desks.state("ada").get("agreement") == expected
    assert len(seen) >= 2


def test_a_campaign_says_when_its_annotators_can_judge_none_of_the_pairs_left(desks: Desks) -> None:
    desks.create(spec(pairs=3, controls=0, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    first, *others = desks.lease("ada", 3)
    desks.deliver("ada", *(desks.said("ada", each["id"]) for each in others))
    assert desks.until(lambda campaign: campaign.judgements == 2).reason.startswith("2 of 3 judgements")
    desks.deliver("ada", desks.said("ada", first["id"], kind="skipped", answers={}, reason="unclear"))
    words = "its annotators can judge none of the pairs that are left (1): invite another one; 2 of 3 judgements"
    assert desks.until(lambda campaign: "invite" in campaign.reason).reason.startswith(words)
    desks.invite("bob")
    assert desks.until(lambda campaign: "invite" not in campaign.reason).judgements == 2


def test_a_second_judgement_does_not_tell_which_pair_is_a_control(desks: Desks) -> None:
    desks.create(spec(pairs=50, controls=0.3, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    given = list[dict[str, object]]()
    while pairs := desks.lease("ada", 1):
        given.append(desks.said("ada", pairs[0]["id"], 0))
        desks.world.clock.advance(1)
        assert desks.deliver("ada", given[-1])["refused"] == []
    before = desks.state("ada")["agreement"]
    assert before["agreed"] == before["of"] > 5
    for number, each in enumerate(given):
        again = desks.said("ada", str(each["pair"]), 2, id=judgement_id("again", number), supersedes=each["id"])
        desks.world.clock.advance(1)
        assert desks.deliver("ada", again)["refused"] == []
        assert desks.state("ada")["agreement"] == before


def test_annotators_read_how_many_of_their_judgements_came_too_soon_to_count(desks: Desks) -> None:
    desks.create(spec(pairs=4, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    for number, pair in enumerate(desks.lease("ada", 4)):
        said = desks.said("ada", pair["id"], shown_ms=3 if number else 4000)
        assert desks.deliver("ada", said)["refused"] == []
    assert desks.state("ada")["fast"] == 3
    desks.invite("bob")
    assert "fast" not in desks.state("bob")


AWAY = {
    "database": {Fault.DATABASE_UNAVAILABLE: 0.2, Fault.COMMIT_UNANSWERED: 0.2, Fault.TRANSACTION_ABORTED: 0.1},
    "event log": {Fault.LOG_UNAVAILABLE: 0.7, Fault.APPEND_UNANSWERED: 0.5},
    "blob store": {Fault.BLOBS_UNAVAILABLE: 0.5, Fault.PUT_UNANSWERED: 0.3},  # three puts in a row have to succeed
}


@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_was_given_is_lost_or_doubled_while_a_part_is_away(seed: int, away: str) -> None:
    with Simulation(seed, builds={"annotation": build}, rates=AWAY[away]) as world:
        desks = Desks(world)
        desks.create(spec(pairs=20, overlap=Overlap(least=1, most=1)))
        desks.invite("ada")
        unanswered = 0
        while True:
            try:
                pairs = desks.lease("ada")
                receipt = desks.deliver("ada", *(desks.said("ada", pair["id"]) for pair in pairs)) if pairs else None
            except (DatabaseUnavailable, Contention):
                unanswered += 1
                continue
            if receipt is None:
                break
            assert receipt["refused"] == []
        campaign = desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
        assert sum(world.fate.counts[fault] for fault in AWAY[away]) > 0
        assert (unanswered > 0) == (away == "database")
        assert campaign.judgements == 20
        world.fate.calm = True
        own = desks.call("/annotation/{campaign}/own.json", "ada", campaign="a")["judgements"]
        assert len({each["pair"] for each in own}) == len(own) == 20
        assert sum(each.judged for each in desks.facts(JudgementsAccepted)) == 20


def test_a_campaign_of_one_annotator_is_published_and_says_that_nothing_is_identified(desks: Desks) -> None:
    desks.create(spec(pairs=4, overlap=Overlap(least=1, most=1), controls=0.25))
    desks.invite("ada")
    desks.judge_all("ada")
    desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    found = preferences(desks, "one")
    assert (found.pairs, found.judgements, found.annotators, found.identified) == (4, 6, 1, False)


def test_a_campaign_that_needs_more_annotators_than_it_has_waits_and_can_be_closed(desks: Desks) -> None:
    desks.create(spec(pairs=4, overlap=Overlap(least=2, most=2)))
    desks.invite("ada")
    assert desks.judge_all("ada") == 4
    assert desks.state("ada")["state"] == "no_pairs"
    campaign = desks.get()
    assert (campaign.state, campaign.wanted) == (CAMPAIGN_STATE_OPEN, 8)
    desks.world.insist(lambda: desks.stub.CloseCampaign(CloseCampaignRequest(name=NAME)))
    closed = desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    assert closed.reason == "closed on request with 4 of 8 judgements"
    assert preferences(desks, "one").judgements == 4


def test_empty_and_cut_answers_are_judged_and_equal_ones_are_left_out(desks: Desks) -> None:
    asked = [{"role": "user", "content": "Why?"}]
    answers = (["", "Because."], ["Because of the", "Because."], ["Equal.", "Equal."], ["", ""])
    given = "".join(json.dumps({"prompt": asked, "answers": each}) + "\n" for each in answers)
    campaign = desks.create(spec(pairs=given, overlap=Overlap(least=1, most=1)))
    assert (campaign.pairs, campaign.left_out) == (2, 2)
    desks.invite("ada")
    assert desks.judge_all("ada") == 2
    desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    found = preferences(desks, "one")
    read = desks.world.insist(lambda: desks.stub.ReadPreferences(ReadPreferencesRequest(name=found.name)))
    fitted = list(from_lines(Preference, read.data))
    assert sorted(sorted(each.answers) for each in fitted) == [["", "Because."], ["Because of the", "Because."]]
    assert all(0 < each.first < 1 for each in fitted)


def test_after_a_retraction_nothing_is_accepted_and_others_get_the_pairs(desks: Desks) -> None:
    desks.create(spec(pairs=2, overlap=Overlap(least=1, most=1)))
    desks.invite("ada", "bob")
    pairs = desks.lease("ada")
    assert desks.lease("bob") == []
    desks.deliver("ada", desks.said("ada", pairs[0]["id"]))
    desks.stub.RetractAnnotator(RetractAnnotatorRequest(campaign=NAME, key="ada", reason="on request"))
    refused = desks.deliver("ada", desks.said("ada", pairs[1]["id"]))["refused"]
    assert [each["reason"] for each in refused] == ["RETRACTED"]
    assert desks.state("ada")["state"] == "suspended"
    assert {pair["id"] for pair in desks.lease("bob")} == {pair["id"] for pair in pairs}


def test_who_withdraws_is_taken_out_once_and_others_get_the_pairs(desks: Desks) -> None:
    desks.create(spec(pairs=2, overlap=Overlap(least=1, most=1)))
    desks.invite("ada", "bob")
    pairs = desks.lease("ada")
    desks.deliver("ada", desks.said("ada", pairs[0]["id"]))
    for _ in range(2):
        assert desks.call("/annotation/api/withdraw", "ada", {"campaign": "a"}) == {"withdrawn": True}
    assert desks.state("ada")["state"] == "suspended"
    assert {pair["id"] for pair in desks.lease("bob")} == {pair["id"] for pair in pairs}
    [own] = desks.call("/annotation/{campaign}/own.json", "ada", campaign="a")["judgements"]
    assert desks.facts(AnnotatorRetracted) == [AnnotatorRetracted(campaign=NAME, annotator="ada", judgements=1)]
    assert own["pair"] == pairs[0]["id"]


def test_another_guideline_is_read_before_anything_else(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    pair = desks.lease("ada")[0]["id"]
    old = desks.said("ada", pair)
    desks.stub.UpdateGuideline(UpdateGuidelineRequest(name=NAME, text="Prefer the longer answer."))
    state = desks.state("ada")
    assert state["state"] == "guideline_changed"
    assert state["guideline"]["text"] == "Prefer the longer answer."
    assert state["guideline"]["before"]["text"] == "Prefer the shorter answer."
    assert desks.lease("ada") == []
    assert [each["reason"] for each in desks.deliver("ada", old)["refused"]] == ["OLD_GUIDELINE"]
    body = {"campaign": "a", "version": state["guideline"]["version"]}
    assert desks.call("/annotation/api/guideline", "ada", body) == {"accepted": True}
    assert pair in [each["id"] for each in desks.lease("ada")]


def test_a_paused_campaign_gives_no_pairs_and_takes_what_was_given(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    pair = desks.lease("ada", 1)[0]["id"]
    desks.stub.PauseCampaign(PauseCampaignRequest(name=NAME))
    assert desks.state("ada")["state"] == "paused"
    assert desks.lease("ada") == []
    assert desks.deliver("ada", desks.said("ada", pair))["done"] == 1
    desks.stub.ResumeCampaign(ResumeCampaignRequest(name=NAME))
    assert len(desks.lease("ada")) == 5
    desks.stub.CloseCampaign(CloseCampaignRequest(name=NAME))
    late = desks.deliver("ada", desks.said("ada", desks.lease_ids("ada")[0]))
    assert [each["reason"] for each in late["refused"]] == ["CLOSED"]


def test_a_pair_that_lapsed_is_given_to_others_and_its_judgement_still_counts(desks: Desks) -> None:
    desks.create(spec(pairs=1, overlap=Overlap(least=1, most=1)))
    desks.invite("ada", "bob")
    pair = desks.lease("ada")[0]["id"]
    assert desks.lease("bob") == []
    desks.world.clock.advance(3600)
    desks.world.run(max_turns=200)
    assert [each["id"] for each in desks.lease("bob")] == [pair]
    assert desks.deliver("ada", desks.said("ada", pair))["done"] == 1


def test_pairs_that_lapsed_come_back_to_an_annotator_who_is_alone(desks: Desks) -> None:
    desks.create(spec(pairs=4, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    given = {each["id"] for each in desks.lease("ada")}
    desks.world.clock.advance(3600)
    desks.world.run(max_turns=200)
    assert {each["id"] for each in desks.lease("ada")} == given
    assert desks.judge_all("ada") == 4
    assert desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED).judgements == 4


def test_nobody_judges_by_a_guideline_that_he_or_she_has_not_read(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    pair = desks.lease("ada")[0]["id"]
    request = UpdateGuidelineRequest(name=NAME, text="Prefer the longer answer.")
    desks.world.insist(lambda: desks.stub.UpdateGuideline(request))
    refused = desks.deliver("ada", desks.said("ada", pair))["refused"]
    assert [each["reason"] for each in refused] == ["OLD_GUIDELINE"]
    desks.call("/annotation/api/guideline", "ada", {"campaign": "a", "version": desks.get().guideline})
    assert desks.deliver("ada", desks.said("ada", pair))["refused"] == []


def test_a_new_guideline_can_ask_for_the_qualification_again(desks: Desks) -> None:
    desks.create(spec(pairs=12, qualification=Qualification(pairs=2, right=2)))
    desks.invite("ada")
    for each in desks.lease("ada"):
        desks.deliver("ada", desks.said("ada", each["id"]))
    held = {each["id"] for each in desks.lease("ada", 4)}
    assert desks.state("ada")["state"] == "active"
    request = UpdateGuidelineRequest(name=NAME, text="Prefer the longer answer.", requalify=True)
    desks.world.insist(lambda: desks.stub.UpdateGuideline(request))
    assert desks.state("ada")["state"] == "guideline_changed"
    desks.call("/annotation/api/guideline", "ada", {"campaign": "a", "version": desks.get().guideline})
    pairs = desks.lease("ada")
    assert (desks.state("ada")["state"], len(pairs)) == ("qualifying", 2)
    said = [desks.said("ada", each["id"], id=judgement_id("again", each["id"])) for each in pairs]
    assert desks.deliver("ada", *said)["refused"] == []
    assert desks.state("ada")["state"] == "active"
    assert {each["id"] for each in desks.lease("ada")} >= held


def test_nobody_is_given_ordinary_pairs_before_the_qualification(desks: Desks) -> None:
    desks.create(spec(pairs=12, qualification=Qualification(pairs=3, right=3)))
    desks.invite("ada")
    pairs = desks.lease("ada")
    assert desks.state("ada")["state"] == "qualifying"
    assert len(pairs) == 3
    assert all(pair["answers"][0] == pair["answers"][1] for pair in pairs)
    wrong = desks.deliver("ada", desks.said("ada", pairs[0]["id"], 2))
    assert wrong["explained"] == [
        {
            "pair": pairs[0]["id"],
            "right": False,
            "better": "neither",
            "words": "Both answers are the same text.",
        }
    ]
    assert desks.state("ada")["qualification"] == {"answered": 1, "right": 0, "needed": 3, "of": 3}
    for _ in range(3):
        pair = desks.lease("ada", 1)[0]["id"]
        assert desks.deliver("ada", desks.said("ada", pair))["explained"][0]["right"]
    assert desks.state("ada")["state"] == "active"
    assert all(pair["answers"][0] != pair["answers"][1] for pair in desks.lease("ada"))


def test_a_campaign_is_qualifying_until_the_first_annotator_has_passed(desks: Desks) -> None:
    campaign = desks.create(spec(pairs=12, qualification=Qualification(pairs=1, right=1)))
    assert campaign.state == CAMPAIGN_STATE_QUALIFYING
    assert campaign.reason == "nobody has passed the qualification yet; 0 of 24 judgements by 0 annotators"
    desks.invite("ada", "bob")
    assert len(desks.lease("bob")) == 1
    assert desks.stub.PauseCampaign(PauseCampaignRequest(name=NAME)).state == CAMPAIGN_STATE_PAUSED
    assert desks.state("bob")["state"] == "paused"
    assert desks.stub.ResumeCampaign(ResumeCampaignRequest(name=NAME)).state == CAMPAIGN_STATE_QUALIFYING
    assert desks.deliver("ada", desks.said("ada", desks.lease("ada")[0]["id"]))["explained"][0]["right"]
    assert desks.until(lambda found: found.state != CAMPAIGN_STATE_QUALIFYING).state == CAMPAIGN_STATE_OPEN
    assert desks.state("bob")["state"] == "qualifying"
    desks.stub.PauseCampaign(PauseCampaignRequest(name=NAME))
    assert desks.stub.ResumeCampaign(ResumeCampaignRequest(name=NAME)).state == CAMPAIGN_STATE_OPEN


def test_who_does_not_qualify_is_told(desks: Desks) -> None:
    desks.create(spec(pairs=12, qualification=Qualification(pairs=2, right=2)))
    desks.invite("ada")
    while pairs := desks.lease("ada"):
        desks.deliver("ada", *(desks.said("ada", pair["id"], -2) for pair in pairs))
    assert desks.state("ada")["state"] == "suspended"
    assert "qualification" in desks.state("ada")["reason"]


def test_an_owner_lets_who_did_not_qualify_take_the_qualification_again(desks: Desks) -> None:
    desks.create(spec(pairs=12, qualification=Qualification(pairs=2, right=2)))
    desks.invite("ada", "bob")
    for count in (2, 1):
        pairs = desks.lease("bob", count)
        desks.deliver("bob", *(desks.said("bob", pair["id"]) for pair in pairs))
    first: list[str] = []
    while pairs := desks.lease("ada"):
        first += [pair["id"] for pair in pairs]
        desks.deliver("ada", *(desks.said("ada", pair["id"], -2) for pair in pairs))
    assert desks.state("ada")["state"] == "suspended"

    def again(key: str) -> int:
        return desks.stub.RequalifyAnnotator(RequalifyAnnotatorRequest(campaign=NAME, key=key)).state

    assert again("ada") == ANNOTATOR_STATE_INVITED
    assert again("bob") == ANNOTATOR_STATE_ACTIVE
    assert desks.state("bob")["done"] == 1
    pairs = desks.lease("ada")
    assert {pair["id"] for pair in pairs} <= set(first)
    assert desks.state("ada")["qualification"] == {"answered": 0, "right": 0, "needed": 2, "of": 2}
    receipt = desks.deliver("ada", *(desks.said("ada", pair["id"], id=judgement_id(pair["id"], 2)) for pair in pairs))
    assert [each["right"] for each in receipt["explained"]] == [True, True]
    assert desks.state("ada")["state"] == "active"
    own = desks.call("/annotation/{campaign}/own.json", "ada", campaign="a")["judgements"]
    assert len(own) == len(first) + 2  # the answers of the first attempt are kept
    with pytest.raises(NotFound, match="the annotator eve"):
        again("eve")
    desks.stub.RetractAnnotator(RetractAnnotatorRequest(campaign=NAME, key="ada", reason="on request"))
    assert again("ada") == ANNOTATOR_STATE_RETRACTED


def test_the_last_judgement_can_be_undone_before_the_campaign_is_published(desks: Desks) -> None:
    desks.create(spec(pairs=1, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    pair = desks.lease("ada")[0]["id"]
    first = desks.said("ada", pair)
    desks.deliver("ada", first)
    waits = desks.until(lambda found: found.judgements == 1)
    assert waits.reason == "has its judgements; closes 60 s after the last one"
    assert desks.state("ada")["state"] == "no_pairs"
    desks.world.clock.advance(50)
    second = desks.said("ada", pair, 0, id=judgement_id(2), supersedes=first["id"])
    assert desks.deliver("ada", second)["accepted"] == [second["id"]]
    since = desks.world.clock.monotonic()
    assert desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED).judgements == 1
    assert desks.world.clock.monotonic() - since >= 60


def test_owners_and_annotators_count_the_same_pairs(desks: Desks) -> None:
    desks.create(spec(pairs=12, controls=0.4, qualification=Qualification(pairs=1, right=1)))
    desks.invite("ada")
    desks.judge_all("ada", most=5)
    pair = desks.lease("ada")[0]["id"]
    desks.deliver("ada", desks.said("ada", pair, kind="skipped", answers={}, reason="unclear"))
    (ada,) = desks.stub.ListAnnotators(ListAnnotatorsRequest(campaign=NAME)).annotators
    assert (ada.judged > 0, ada.controls > 0, ada.skipped) == (True, True, 1)
    assert desks.state("ada")["done"] == ada.judged + ada.controls + ada.skipped


def test_known_pairs_qualify_by_what_their_owner_says_of_them(desks: Desks) -> None:
    known = lines(1).replace('"answers"', '"better": "second", "explanation": "It is short.", "answers"')
    second = json.loads(known)["answers"][1]
    desks.create(spec(pairs=6, qualifying=known, qualification=Qualification(pairs=1, right=1)))
    desks.invite("ada")
    shown = next(pair for pair in desks.lease("ada") if pair["answers"][0] != pair["answers"][1])
    told = desks.deliver("ada", desks.said("ada", shown["id"]))["explained"][0]
    assert told["right"]
    assert told["better"] == ("left" if shown["answers"][0] == second else "right")
    assert told["words"] == "It is short."


def test_others_do_not_learn_that_a_campaign_exists(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    with pytest.raises(NotFound):
        desks.state("eve")
    with pytest.raises(NotFound):
        desks.lease("eve")
    with pytest.raises(NotFound):
        desks.call("/annotation/{campaign}/state.json", "ada", tenant="tenants/other", campaign="a")


def test_too_many_requests_have_to_wait(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    with pytest.raises(Refused, match="too many requests") as caught:
        [desks.lease("ada", 1) for _ in range(100)]
    assert caught.value.reason == "TOO_MANY_REQUESTS"
    assert int(caught.value.metadata["retry_after"]) >= 0


def test_a_campaign_is_created_once(desks: Desks) -> None:
    first = desks.create(spec())
    assert desks.create(spec()).revision == first.revision
    with pytest.raises(AlreadyExists):
        desks.create(spec(seed=4))


def test_texts_are_in_no_resource_and_no_event(desks: Desks) -> None:
    campaign = desks.create(spec())
    assert (campaign.spec.pairs, campaign.spec.guideline, campaign.spec.qualifying) == ("", "", "")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"pairs": ""}, "spec.answers"),
        ({"pairs": "{}\n"}, "spec.pairs"),
        ({"pairs": '{"prompt": [], "answers": ["a", "b"]}\n'}, "spec.pairs"),
        ({"guideline": "  "}, "spec.guideline"),
        ({"axes": []}, "spec.axes"),
        ({"axes": [Axis(name="a"), Axis(name="a")]}, "spec.axes"),
        ({"axes": [Axis(name="A b")]}, "spec.axes"),
        ({"crowd": 0}, "spec.crowd"),
        ({"crowd": 77}, "spec.crowd"),
        ({"deadline_seconds": 1 << 62}, "spec.deadline_seconds"),
        ({"pairs": "\n"}, "spec.pairs"),
        ({"pairs": lines(1).replace("question", "\\ud800")}, "spec.pairs"),
        ({"crowd": 2}, "spec.simulated.annotators"),
        ({"overlap": Overlap(least=3, most=2)}, "spec.overlap.most"),
        ({"controls": 0.5}, "spec.controls"),
        ({"controls": float("nan")}, "spec.controls"),
        ({"seed": 1 << 53}, "spec.seed"),
        ({"qualification": Qualification(pairs=2, right=3)}, "spec.qualification.right"),
        ({"qualifying": lines(1)}, "spec.qualifying"),
        ({"logic_version": "0"}, "spec.logic_version"),
    ],
)
def test_what_cannot_be_a_campaign_is_refused_by_field(desks: Desks, change: dict[str, Any], field: str) -> None:
    request = CreateCampaignRequest(name=NAME, spec=spec(**change))
    with pytest.raises(InvalidField) as caught:
        desks.stub.CreateCampaign(request)
    assert caught.value.field == field


def test_a_campaign_without_pairs_fails_and_says_what_to_do(desks: Desks) -> None:
    same = '{"prompt": [{"role": "user", "content": "q"}], "answers": ["a", "a"]}\n'
    failed = desks.create(spec(pairs=same))
    assert failed.state == CAMPAIGN_STATE_FAILED
    assert "1 were left out since their answers are equal" in failed.reason


def test_no_more_judgements_are_wanted_than_the_overlap_allows(desks: Desks) -> None:
    assert desks.create(spec(pairs=6, judgements=100)).wanted == 12


def test_an_open_campaign_can_be_extended_and_no_number_becomes_lower(desks: Desks) -> None:
    desks.create(spec(pairs=3, overlap=Overlap(least=1, most=1), deadline_seconds=3600))
    desks.invite("ada", "bob")
    refused: Sequence[tuple[dict[str, Any], str, str]] = (
        ({"judgements": 2}, "judgements", "3 (as it is now) to 3 (1 for each of 3 pairs)"),
        ({"judgements": 4}, "judgements", "3 (as it is now) to 3 (1 for each of 3 pairs)"),
        ({"judgements": 9, "most": 2}, "judgements", "3 (as it is now) to 6 (2 for each of 3 pairs)"),
        ({"most": 101}, "most", "1 (as it is now) to 100"),
        ({"deadline_seconds": 3599}, "deadline_seconds", "3,600 (as it is now) to 31,622,400 (a year)"),
    )
    for changes, field, expected in refused:
        with pytest.raises(InvalidField) as caught:
            desks.stub.ExtendCampaign(ExtendCampaignRequest(name=NAME, **changes))
        assert caught.value.field == field
        assert f"expected {expected}, got" in str(caught.value)
    before = desks.get()
    more = ExtendCampaignRequest(name=NAME, judgements=5, most=2, deadline_seconds=7200)
    tried = desks.stub.ExtendCampaign(ExtendCampaignRequest(name=NAME, judgements=5, most=2, validate_only=True))
    assert (tried.wanted, desks.get()) == (5, before)
    for _ in range(2):
        extended = desks.world.insist(lambda: desks.stub.ExtendCampaign(more))
        assert (extended.wanted, extended.spec.overlap.most, extended.spec.deadline_seconds) == (5, 2, 7200)
    desks.world.clock.advance(3700)
    desks.world.run(until=lambda: desks.judge_all("ada") + desks.judge_all("bob") >= 0 and desks.get().judgements == 5)
    found = desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    assert (found.judgements, found.reason) == (5, "")
    with pytest.raises(Refused, match="is published: it cannot be extended; a clone can collect more"):
        desks.stub.ExtendCampaign(more)


def test_a_clone_has_the_pairs_and_the_current_guideline_and_nobody_in_it(desks: Desks) -> None:
    desks.create(spec(pairs=6))
    desks.invite("ada")
    desks.lease("ada")
    desks.stub.UpdateGuideline(UpdateGuidelineRequest(name=NAME, text="Prefer the longer answer."))
    source = desks.get()
    asked = CloneCampaignRequest(request_id="clone", name="campaigns/b", source=NAME)
    for _ in range(2):
        desks.world.insist(lambda: desks.stub.CloneCampaign(asked))
    desks.campaign = "b"
    made = desks.until(lambda found: found.state == CAMPAIGN_STATE_OPEN)
    assert (made.spec, made.guideline, made.annotators) == (source.spec, source.guideline, 0)
    assert (made.pairs, made.wanted) == (source.pairs, source.wanted)
    text = desks.stub.ReadGuideline(ReadGuidelineRequest(name=made.name)).text
    assert text == "Prefer the longer answer."
    shown = [(each["prompt"], each["answers"]) for each in desks.shown["ada"].values()]
    desks.invite("ada")
    assert [(each["prompt"], each["answers"]) for each in desks.lease("ada")] == shown
    with pytest.raises(NotFound):
        desks.stub.CloneCampaign(CloneCampaignRequest(name="campaigns/c", source="campaigns/none"))
    with pytest.raises(AlreadyExists):
        desks.stub.CloneCampaign(CloneCampaignRequest(request_id="other", name="campaigns/b", source="campaigns/b"))


def test_a_key_belongs_to_one_annotator_and_an_invitation_is_idempotent(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada", "ada")
    assert desks.get().annotators == 1
    with pytest.raises(Refused, match="choose another key"):
        desks.stub.InviteAnnotator(InviteAnnotatorRequest(campaign=NAME, user="users/bob", key="ada"))


def test_a_campaign_closes_at_its_deadline_with_what_it_has(desks: Desks) -> None:
    desks.create(spec(pairs=3, deadline_seconds=3600))
    desks.invite("ada")
    assert desks.judge_all("ada") == 3
    assert desks.state("ada")["state"] == "no_pairs"
    assert "; closes at " in desks.get().reason
    desks.world.clock.advance(3700)
    found = desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    assert found.reason == "closed at its deadline with 3 of 6 judgements"
    assert not preferences(desks, "one").identified


def test_a_clock_that_was_set_back_gives_no_negative_time(desks: Desks) -> None:
    desks.create(spec())
    desks.invite("ada")
    pair = desks.lease("ada")[0]["id"]
    assert desks.deliver("ada", desks.said("ada", pair, shown_ms=-5000))["done"] == 1
    (ada,) = desks.stub.ListAnnotators(ListAnnotatorsRequest(campaign=NAME)).annotators
    assert ada.fast == 1
