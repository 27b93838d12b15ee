"""What is published follows from the set of judgements: not from their order, nor from anyone who was retracted."""

import random
from collections.abc import Sequence

import pytest

from tutti.annotation.conftest import Desks, judgement_id, spec
from tutti.annotation.service import build
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_PUBLISHED,
    CloseCampaignRequest,
    ListAnnotatorsRequest,
    Overlap,
    RetractAnnotatorRequest,
)
from tutti.simulation import Simulation

NAME = "campaigns/a"
ADA, BOB, EVE = "ada", "bob", "eve"


def published(who: Sequence[str], *, order: int = 0, retracts: str = "", **changes: object) -> str:
    """The digest of what is published after everybody has judged every pair, in an order that is drawn."""
    with Simulation(0, builds={"annotation": build}, rates={}) as world:
        desks = Desks(world)
        desks.create(spec(pairs=6, overlap=Overlap(least=4, most=4), controls=0.25))
        desks.invite(ADA, BOB, EVE)
        every = []
        for name in (ADA, BOB, EVE):
            while pairs := desks.lease(name):
                said = [desks.said(name, pair["id"]) for pair in pairs]
                if name in who:
                    every += [(name, each | changes) for each in said]
                desks.deliver(name, *(each | {"kind": "skipped", "answers": {}} for each in said))
        random.Random(order).shuffle(every)
        for name, each in every:
            desks.world.clock.advance(1)
            again = {"id": judgement_id("again", each["id"]), "supersedes": each["id"]}
            receipt = desks.deliver(name, each | again)
            assert receipt["refused"] == []
        if retracts == "before":
            retract(desks)
        desks.stub.CloseCampaign(CloseCampaignRequest(name=NAME))
        desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
        if retracts == "after":
            before = desks.get().result.content_digest
            retract(desks)
            desks.until(lambda found: found.result.content_digest != before)
        return str(desks.get().result.content_digest)


def retract(desks: Desks) -> None:
    request = RetractAnnotatorRequest(campaign=NAME, key=EVE, reason="to see it")
    desks.world.insist(lambda: desks.stub.RetractAnnotator(request))


def test_the_order_of_arrival_times_and_comments_leave_no_trace() -> None:
    digests = {published([ADA, BOB, EVE], order=order) for order in range(3)}
    digests.add(published([ADA, BOB, EVE], comment="a word", shown_ms=9000))
    assert len(digests) == 1
    assert published([ADA, BOB]) not in digests


@pytest.mark.parametrize("retracts", ["before", "after"])
def test_a_retraction_gives_the_digest_of_a_run_without_the_annotator(retracts: str) -> None:
    assert published([ADA, BOB, EVE], retracts=retracts) == published([ADA, BOB])


def test_what_is_faster_than_anybody_reads_is_recorded_and_not_fitted() -> None:
    with Simulation(0, builds={"annotation": build}, rates={}) as world:
        desks = Desks(world)
        desks.create(spec(pairs=2, overlap=Overlap(least=1, most=1)))
        desks.invite(ADA)
        for pair, shown_ms in zip(desks.lease(ADA), (9, 10), strict=True):
            assert desks.deliver(ADA, desks.said(ADA, pair["id"], shown_ms=shown_ms))["refused"] == []
        found = desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
        (ada,) = desks.stub.ListAnnotators(ListAnnotatorsRequest(campaign=NAME)).annotators
        manifest = world.world.blobs.get(found.result.manifest_key)
        assert (ada.judged, ada.fast) == (2, 1)
        assert b'"excluded":{"TOO_FAST":1}' in manifest
