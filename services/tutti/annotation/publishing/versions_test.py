"""Published demonstrations: what is accepted, once, whoever wrote it; immutable; a retraction leaves no trace."""

import json
from collections.abc import Mapping

import pytest

from tutti.annotation.conftest import Desks, spec
from tutti.annotation.service import build
from tutti.chassis.errors import InvalidField, NotFound
from tutti.contracts.annotation.v1 import (
    AcceptedDemonstrations,
    CreateDemonstrationsRequest,
    Demonstrations,
    DemonstrationsSpec,
    FindDemonstrationsRequest,
    Overlap,
    ReadDemonstrationsRequest,
    RetractAnnotatorRequest,
    ReviewDemonstrationRequest,
)
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_PENDING, STATE_RUNNING, GetRequest
from tutti.corpus.conversations.conversations import Conversation, from_lines
from tutti.simulation import Simulation

NAME, ADA, BOB = "campaigns/a", "ada", "bob"
ANSWERS = {ADA: ("one", "two", "three"), BOB: ("one", "two", "four")}


def write(desks: Desks, answers: Mapping[str, tuple[str, ...]]) -> dict[tuple[str, str], str]:
    """Have each annotator write answers to the first pairs, in the order of their prompts; ids by writer and answer."""
    desks.create(spec(pairs=4, overlap=Overlap(least=2, most=2)))
    desks.invite(*answers)
    ids = {}
    for user, words in answers.items():
        pairs = sorted(desks.lease(user), key=lambda each: str(each["prompt"]))
        for pair, text in zip(pairs, words, strict=False):
            said = desks.said(user, pair["id"], demonstration=text)
            assert desks.deliver(user, said)["refused"] == []
            ids[user, text] = str(said["id"])
    return ids


def review(desks: Desks, id: str, *, accepted: bool = True) -> None:
    reason = "" if accepted else "it is not true"
    request = ReviewDemonstrationRequest(campaign=NAME, id=id, accepted=accepted, reason=reason)
    desks.world.insist(lambda: desks.stub.ReviewDemonstration(request))


def publish(desks: Desks, name: str = "first") -> Demonstrations:
    find = FindDemonstrationsRequest(campaign=NAME)
    accepted = desks.world.insist(lambda: desks.stub.FindDemonstrations(find)).accepted
    full, wanted = f"demonstrations/{name}", DemonstrationsSpec(accepted=[accepted])
    request = CreateDemonstrationsRequest(request_id=full, name=full, spec=wanted)
    desks.world.insist(lambda: desks.stub.CreateDemonstrations(request))

    def get() -> Demonstrations:
        found: Demonstrations = desks.world.insist(lambda: desks.stub.GetDemonstrations(GetRequest(name=full)))
        return found

    desks.world.run(until=lambda: get().state not in (STATE_PENDING, STATE_RUNNING))
    return get()


def texts(desks: Desks, name: str = "first") -> list[str]:
    request = ReadDemonstrationsRequest(name=f"demonstrations/{name}")
    data = desks.world.insist(lambda: desks.stub.ReadDemonstrations(request)).data
    return sorted(str(each.answer) for each in from_lines(Conversation, data))


def test_a_version_has_what_is_accepted_once_and_is_never_changed(desks: Desks) -> None:
    ids = write(desks, ANSWERS)
    for each in ids.values():
        review(desks, each)
    review(desks, ids[BOB, "four"], accepted=False)
    first = publish(desks)
    assert (first.state, first.conversations, first.duplicates) == (STATE_DONE, 3, 2)
    assert texts(desks) == ["one", "three", "two"]
    manifest = desks.world.world.blobs.get(first.result.manifest_key)
    assert not [each for each in (ADA, BOB, "operator", NAME) if json.dumps(each).encode() in manifest]

    review(desks, ids[ADA, "three"], accepted=False)
    second = publish(desks, "second")
    assert texts(desks, "second") == ["one", "two"]
    assert second.result.content_digest != first.result.content_digest
    assert texts(desks) == ["one", "three", "two"]
    review(desks, ids[ADA, "three"])
    assert publish(desks, "third").result == first.result


@pytest.mark.parametrize("after", ["rejected", "retracted"])
def test_what_is_rejected_or_retracted_leaves_no_trace(after: str) -> None:
    def published(answers: Mapping[str, tuple[str, ...]], *, without: str = "") -> str:
        with Simulation(0, builds={"annotation": build}, rates={}) as world:
            desks = Desks(world)
            ids = write(desks, answers)
            for each in ids.values():
                review(desks, each)
            publish(desks, "before")
            if without == "rejected":
                review(desks, ids[BOB, "four"], accepted=False)
                review(desks, ids[BOB, "two"], accepted=False)
                review(desks, ids[BOB, "one"], accepted=False)
            elif without == "retracted":
                request = RetractAnnotatorRequest(campaign=NAME, key=BOB, reason="on request")
                desks.world.insist(lambda: desks.stub.RetractAnnotator(request))
            return str(publish(desks, "after").result.content_digest)

    assert published(ANSWERS, without=after) == published({ADA: ANSWERS[ADA]})


def test_a_version_without_an_accepted_answer_says_what_to_do(desks: Desks) -> None:
    write(desks, ANSWERS)
    found = publish(desks)
    assert found.state == STATE_FAILED
    assert found.reason.startswith("campaigns/a: no answer is accepted; annotators write answers with the key E")


def test_a_spec_that_names_no_accepted_answers_is_refused(desks: Desks) -> None:
    desks.create(spec())
    one = AcceptedDemonstrations(campaign=NAME, manifest_key="a", content_digest="b")
    for accepted, field in (
        ([], "spec.accepted"),
        ([one, one], "spec.accepted"),
        ([AcceptedDemonstrations(campaign="samples/a", manifest_key="a", content_digest="b")], "campaign"),
        ([AcceptedDemonstrations(campaign=NAME)], "manifest_key"),
    ):
        request = CreateDemonstrationsRequest(
            request_id="a", name="demonstrations/a", spec=DemonstrationsSpec(accepted=accepted)
        )
        with pytest.raises(InvalidField, match=field):
            desks.stub.CreateDemonstrations(request)
    with pytest.raises(NotFound):
        desks.stub.FindDemonstrations(FindDemonstrationsRequest(campaign="campaigns/nothing"))


def test_answers_that_nobody_accepted_cannot_be_published_as_those_of_a_campaign(desks: Desks) -> None:
    ids = write(desks, ANSWERS)
    review(desks, ids[ADA, "one"])
    publish(desks)
    accepted = desks.world.insist(
        lambda: desks.stub.FindDemonstrations(FindDemonstrationsRequest(campaign=NAME))
    ).accepted
    review(desks, ids[ADA, "one"], accepted=False)
    spec = DemonstrationsSpec(accepted=[accepted])
    forged = CreateDemonstrationsRequest(request_id="forged", name="demonstrations/forged", spec=spec)
    with pytest.raises(InvalidField, match="the answers that are accepted now"):
        desks.stub.CreateDemonstrations(forged)
    full = "demonstrations/first"
    again = CreateDemonstrationsRequest(request_id=full, name=full, spec=spec)
    assert desks.stub.CreateDemonstrations(again).demonstrations.state == STATE_DONE
