"""The judgements of a campaign as they came."""

import json
from collections.abc import Iterator

import pytest

from tutti.annotation.conftest import Desks, judgement_id, spec
from tutti.annotation.judging import raw
from tutti.chassis.errors import InvalidField
from tutti.contracts.annotation.v1 import Axis, ReadJudgementsRequest, RetractAnnotatorRequest

AXES = [Axis(name="helpful", rule="Which helps more?"), Axis(name="true", rule="Which is true?")]
USERS = ("ada", "bob")


def exported(desks: Desks) -> Iterator[dict[str, object]]:
    token = ""
    while True:
        request = ReadJudgementsRequest(campaign=f"campaigns/{desks.campaign}", page_token=token)
        page = desks.stub.ReadJudgements(request)
        yield from map(json.loads, page.lines)
        if not (token := page.next_page_token):
            return


@pytest.fixture
def judged(desks: Desks) -> Desks:
    """Ada prefers the shorter of the two answers, by every pair and with a comment; Bob skips his first pair."""
    desks.create(spec(pairs=6, axes=AXES))
    desks.invite(*USERS)
    for user in USERS:
        for number, pair in enumerate(desks.lease(user)):
            left, right = map(len, pair["answers"])
            said = {
                "answers": {"helpful": -2 if left < right else 2, "true": "both_bad"},
                "comment": f"{number}, kürzer",
            }
            if user == "bob" and number == 0:
                said = {"answers": {}, "kind": "skipped", "reason": "unclear"}
            desks.world.clock.advance(60)
            assert desks.deliver(user, desks.said(user, pair["id"], **said))["refused"] == []
    return desks


@pytest.mark.parametrize("characters", [1, raw.PAGE_CHARACTERS])
def test_every_judgement_is_there_once_with_all_axes_and_words(
    judged: Desks, characters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "PAGE_CHARACTERS", characters)
    found = list(exported(judged))
    assert len({each["id"] for each in found}) == len(found) == 12
    assert [each["received_at"] for each in found] == sorted(str(each["received_at"]) for each in found)
    (skipped,) = (each for each in found if each["kind"] == "skipped")
    assert (skipped["annotator"], skipped["user"], skipped["reason"]) == ("bob", "users/bob", "unclear")
    for each in found:
        if each["kind"] == "judged":
            first, second = map(len, each["answers"])  # type: ignore[call-overload]
            assert each["scores"] == {"helpful": -2 if first < second else 2, "true": "both_bad"}
            assert str(each["comment"]).endswith("kürzer")


def test_a_judgement_that_was_undone_is_there_and_those_of_a_retracted_annotator_are_not(judged: Desks) -> None:
    undone = next(each for each in exported(judged) if each["annotator"] == "ada")
    again = judgement_id("again")
    answers = {"helpful": 0, "true": 0}
    said = judged.said("ada", str(undone["pair"]), id=again, answers=answers, supersedes=undone["id"])
    assert judged.deliver("ada", said)["refused"] == []
    current = {each["id"]: each["current"] for each in exported(judged)}
    assert (current[undone["id"]], current[again]) == (False, True)
    request = RetractAnnotatorRequest(campaign=f"campaigns/{judged.campaign}", key="bob", reason="asked for it")
    judged.world.insist(lambda: judged.stub.RetractAnnotator(request))
    assert {each["annotator"] for each in exported(judged)} == {"ada"}


@pytest.mark.parametrize("token", ["x", "/", "-1/x", "9" * 30 + "/x", "٣/x"])
def test_a_token_that_no_page_gave_is_refused(judged: Desks, token: str) -> None:
    with pytest.raises(InvalidField, match="page_token"):
        judged.stub.ReadJudgements(ReadJudgementsRequest(campaign=f"campaigns/{judged.campaign}", page_token=token))
