"""Messages of annotators to the owner of a campaign, and the answers."""

from typing import Any

import pytest

from tutti.annotation.conftest import Desks, judgement_id, spec
from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.contracts.annotation.v1 import (
    AnswerMessageRequest,
    CloseCampaignRequest,
    ListMessagesRequest,
    RetractAnnotatorRequest,
)

NAME = "campaigns/a"
WORDS = "Why was I retracted? I read every answer."


@pytest.fixture
def written(desks: Desks) -> Desks:
    desks.create(spec(pairs=2))
    desks.invite("ada", "bob")
    write(desks)
    return desks


def write(desks: Desks, user: str = "ada", key: object = 0, words: object = WORDS, **changes: Any) -> Any:
    body = {"campaign": "a", "id": judgement_id("message", user, key), "words": words}
    return desks.call("/annotation/api/messages", user, body | changes)["messages"]


def test_a_message_arrives_once_and_its_answer_is_shown_to_its_writer_alone(written: Desks) -> None:
    (sent,) = write(written)
    assert (sent["words"], sent["answer"]) == (WORDS, "")
    request = AnswerMessageRequest(campaign=NAME, id=sent["id"], text="It was a mistake.")
    checked = AnswerMessageRequest(campaign=NAME, id=sent["id"], text="Not yet.", validate_only=True)
    assert written.stub.AnswerMessage(checked).answer == "Not yet."
    assert written.state("ada")["messages"][0]["answer"] == ""
    written.world.insist(lambda: written.stub.AnswerMessage(request))
    assert written.state("ada")["messages"][0]["answer"] == "It was a mistake."
    assert written.state("bob")["messages"] == []
    (found,) = written.stub.ListMessages(ListMessagesRequest(campaign=NAME)).messages
    assert (found.annotator, found.text, found.answer) == ("ada", WORDS, "It was a mistake.")
    own = written.call("/annotation/{campaign}/own.json", "ada", campaign="a")
    assert own["messages"] == [{"id": sent["id"], "words": WORDS, "answer": "It was a mistake."}]


def test_who_was_retracted_and_who_is_done_can_still_write(written: Desks) -> None:
    request = RetractAnnotatorRequest(campaign=NAME, key="ada", reason="answered without reading")
    written.world.insist(lambda: written.stub.RetractAnnotator(request))
    assert len(write(written, key=1)) == 2
    written.world.insist(lambda: written.stub.CloseCampaign(CloseCampaignRequest(name=NAME)))
    assert len(write(written, "bob")) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"words": " "},
        {"words": "x" * 2001},
        {"words": 3},
        {"words": "a\ud800"},
        {"words": "a\0"},
        {"id": "x"},
        {"id": None},
        {"words": "another text"},
    ],
)
def test_a_message_that_cannot_be_meant_is_refused(written: Desks, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidField):
        write(written, **changes)
    assert len(written.state("ada")["messages"]) == 1


def test_an_annotator_writes_so_many_messages_and_no_more(written: Desks) -> None:
    for key in range(1, 50):
        write(written, key=key)
        written.world.clock.advance(1)
    with pytest.raises(Refused) as caught:
        write(written, key=50)
    assert caught.value.reason == "TOO_MANY_MESSAGES"
    assert len(write(written, "bob")) == 1


def test_a_message_that_is_not_there_is_not_answered(written: Desks) -> None:
    request = AnswerMessageRequest(campaign=NAME, id=judgement_id("nothing"), text="Hello.")
    with pytest.raises(NotFound):
        written.stub.AnswerMessage(request)
