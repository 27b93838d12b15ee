"""Comparisons become stale once the judgements behind the compared models change, and only then."""

from collections.abc import Iterator

import pytest

from tutti.chassis.service import Host, Service
from tutti.chassis.work.work import served_work
from tutti.contracts.common.v1 import STATE_DONE, GetRequest
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    STANDING_STALE,
    Comparison,
    ComparisonSpec,
    CreateComparisonRequest,
)
from tutti.contracts.evaluation.v1.stubs import ComparisonServiceStub
from tutti.evaluation import comparison, comparison_test
from tutti.evaluation.release_test import AGAIN, JUDGED, OWNERS, Owners
from tutti.evaluation.reliance import Relied
from tutti.evaluation.standing import LOOK_SECONDS, Standings
from tutti.simulation import Simulation


def build(host: Host) -> Service:
    """The comparisons of the service alone."""
    comparison_test.HOSTS[:] = [host]
    relied = Relied(host.metadata)
    made = comparison.work(host, lambda name: standings.reconciler.wake(name))
    standings = Standings(host, OWNERS[-1].find, relied, made.resource)
    return Service(
        name="evaluation",
        resources=[made.resource],
        tables=[relied.table],
        serves=[served_work(made, comparison.check)],
        tasks=[made.task()],
        loops=[standings.reconciler],
    )


@pytest.fixture(params=range(3))
def world(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    OWNERS.append(Owners())
    with Simulation(request.param, builds={"evaluation": build}) as simulation:
        yield simulation


def spec() -> ComparisonSpec:
    """A comparison of two samples that their owner has: the first of a tuned model, the second of its policy."""
    found = comparison_test.spec()
    for side, known in (("baseline", "samples/before"), ("candidate", "samples/after")):
        OWNERS[-1].known[known].result.content_digest = getattr(found, side).content_digest
        getattr(found, side).name = known
    return found


def get(world: Simulation) -> Comparison:
    stub = ComparisonServiceStub(world.channel("evaluation"))
    return world.insist(lambda: stub.GetComparison(GetRequest(name="comparisons/a")))


def compared(world: Simulation) -> Comparison:
    stub = ComparisonServiceStub(world.channel("evaluation"))
    create = CreateComparisonRequest(request_id="a", name="comparisons/a", spec=spec())
    world.insist(lambda: stub.CreateComparison(create))
    world.settle()
    return get(world)


def later(world: Simulation) -> Comparison:
    """The comparison after its evidence was looked at again and had changed."""
    world.clock.advance(LOOK_SECONDS)
    world.settle(until=lambda: get(world).standing != STANDING_ACTIVE)
    return get(world)


def test_a_comparison_relies_on_its_samples_and_on_the_judgements_behind_them(world: Simulation) -> None:
    found = compared(world)
    assert (found.state, found.standing, found.reason) == (STATE_DONE, STANDING_ACTIVE, "")
    assert {each.resource: each.digest for each in found.evidence} == {
        "campaigns/c": JUDGED,
        "samples/after": found.spec.candidate.content_digest,
        "samples/before": found.spec.baseline.content_digest,
    }


def test_it_is_stale_once_an_annotator_behind_it_is_retracted_and_keeps_its_figures(world: Simulation) -> None:
    active = compared(world)
    OWNERS[-1].known["campaigns/c"].result.content_digest = AGAIN
    stale = later(world)
    assert stale.standing == STANDING_STALE
    assert f"campaigns/c has the content {AGAIN}, expected {JUDGED}; an annotator was retracted" in stale.reason
    assert (stale.state, stale.result, stale.wins) == (active.state, active.result, active.wins)
    OWNERS[-1].known["campaigns/c"].result.content_digest = JUDGED
    assert later(world).standing == STANDING_STALE


def test_a_retraction_before_the_first_look_is_seen(world: Simulation) -> None:
    OWNERS[-1].known["campaigns/c"].result.content_digest = AGAIN
    assert compared(world).standing == STANDING_STALE


def test_a_comparison_whose_sample_is_gone_is_stale(world: Simulation) -> None:
    asked = spec()
    del OWNERS[-1].known["samples/after"]
    stub = ComparisonServiceStub(world.channel("evaluation"))
    create = CreateComparisonRequest(request_id="a", name="comparisons/a", spec=asked)
    world.insist(lambda: stub.CreateComparison(create))
    world.settle()
    assert get(world).standing == STANDING_STALE
