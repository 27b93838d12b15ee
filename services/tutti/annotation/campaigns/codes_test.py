"""A completion code is for annotators that have read the answers."""

from tutti.annotation.conftest import Desks, spec
from tutti.contracts.annotation.v1 import Annotator, ListAnnotatorsRequest, Overlap
from tutti.judgements.habits import unread

PAIRS = 40


def paced(desks: Desks, seconds: float) -> None:
    """One annotator judges every pair, each so long after the one before."""
    desks.create(spec(pairs=PAIRS, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    while pairs := desks.lease("ada"):
        for pair in pairs:
            desks.world.clock.advance(seconds)
            assert desks.deliver("ada", desks.said("ada", pair["id"]))["refused"] == []


def listed(desks: Desks) -> Annotator:
    (found,) = desks.stub.ListAnnotators(ListAnnotatorsRequest(campaign=f"campaigns/{desks.campaign}")).annotators
    return found


def test_who_judges_faster_than_anybody_reads_gets_none_and_the_owner_is_told(desks: Desks) -> None:
    paced(desks, 0.08)
    told = desks.state("ada")
    assert "code" not in told
    assert told["unread"]["speed"] > told["unread"]["most"] == 60
    found = listed(desks)
    assert (found.completion_code, found.judged) == ("", PAIRS)  # the judgements are kept
    assert unread(found.characters_a_second)


def test_who_takes_the_time_to_read_gets_one(desks: Desks) -> None:
    paced(desks, 4.0)
    told = desks.state("ada")
    assert "unread" not in told
    found = listed(desks)
    assert told["code"] == found.completion_code != ""
    assert not unread(found.characters_a_second)


def test_what_was_judged_without_a_network_arrives_together_and_has_taken_its_time(desks: Desks) -> None:
    desks.create(spec(pairs=PAIRS, overlap=Overlap(least=1, most=1)))
    desks.invite("ada")
    (first,) = desks.lease("ada", 1)
    desks.deliver("ada", desks.said("ada", first["id"]))
    while pairs := desks.lease("ada"):
        desks.world.clock.advance(4.0 * len(pairs))
        desks.deliver("ada", *(desks.said("ada", pair["id"]) for pair in pairs))
    assert desks.state("ada")["code"]
