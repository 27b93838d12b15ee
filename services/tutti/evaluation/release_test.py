"""Releases in a world that crashes, repeats and reorders by seed: signed, refused, stale, revoked."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.identity import signatures
from tutti.chassis.service import Host, Service
from tutti.chassis.work.work import served_work
from tutti.contracts.annotation.v1 import Campaign, Preferences
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, CHECKPOINT_STATE_PRUNED, Checkpoint
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, GetRequest, ListRequest
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    STANDING_REFUSED,
    STANDING_REVOKED,
    STANDING_STALE,
    ComparedReward,
    ComparedSample,
    Comparison,
    ComparisonSpec,
    CreateReleaseRequest,
    GetSigningKeyRequest,
    Release,
    ReleasedComparison,
    ReleaseRevoked,
    ReleaseSpec,
    RevokeReleaseRequest,
    WinRate,
)
from tutti.contracts.evaluation.v1.stubs import ReleaseServiceStub
from tutti.contracts.sampling.v1 import Sample
from tutti.contracts.scheduler.v1 import Job
from tutti.evaluation.release import LOOK_SECONDS, Releases, check
from tutti.evaluation.reliance import Relied
from tutti.simulation import Simulation

JUDGED, AGAIN = "blake3:judged", "blake3:judged-again"
POLICY, REWARD = "checkpoints/policy/0/2", "checkpoints/reward/0/2"


class Owners:
    """Resources by name, as their owners would answer; the comparison is the service's own."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.add(sample := Sample(name="samples/before"))
        sample.spec.checkpoint, sample.result.content_digest = "checkpoints/tuned/0/2", "blake3:before"
        self.add(sample := Sample(name="samples/after"))
        sample.spec.checkpoint, sample.result.content_digest = POLICY, "blake3:after"
        for name in ("tuned", "policy", "reward"):
            checkpoint = Checkpoint(name=f"checkpoints/{name}/0/2", job=f"jobs/{name}", state_digest=f"blake3:{name}")
            checkpoint.state, checkpoint.parent = CHECKPOINT_STATE_COMMITTED, f"checkpoints/{name}/0/1"
            self.add(checkpoint)
            self.add(Job(name=f"jobs/{name}"))
        self.known["jobs/policy"].spec.initial = "checkpoints/tuned/0/2"
        self.known["jobs/policy"].spec.models.add(role="reward", checkpoint=REWARD)
        self.known["jobs/reward"].spec.source = "preferences/p"
        self.add(preferences := Preferences(name="preferences/p"))
        preferences.spec.campaign, preferences.spec.content_digest = "campaigns/c", JUDGED
        self.add(campaign := Campaign(name="campaigns/c"))
        campaign.result.content_digest = JUDGED
        self.add(compared())
        self.add(compared("comparisons/exploited", judged=0.2, low=0.1, promised=0.95))

    def add(self, resource: Any) -> None:
        self.known[resource.name] = resource

    def find(self, name: str) -> Any:
        if name not in self.known:
            raise NotFound(name)
        return self.known[name]


OWNERS: list[Owners] = []


def build(host: Host) -> Service:
    """The releases of the service alone."""
    relied = Relied(host.metadata)
    releases = Releases(host, OWNERS[-1].find, relied)
    return Service(
        name="evaluation",
        resources=[releases.resource],
        tables=[releases.keys.table, releases.tries.table, relied.table],
        serves=[served_work(releases.work, check, releases)],
        facts=[ReleaseRevoked],
        tasks=[releases.work.task()],
        loops=[releases.reconciler],
    )


def compared(
    name: str = "comparisons/x", *, judged: float = 0.71, low: float = 0.66, promised: float = 0.75
) -> Comparison:
    spec = ComparisonSpec(
        baseline=ComparedSample(name="samples/before"),
        candidate=ComparedSample(name="samples/after"),
        reward=ComparedReward(checkpoint=REWARD),
    )
    found = Comparison(name=name, state=STATE_DONE, spec=spec, promised=promised, divergence=2.5, simulated=True)
    found.wins.CopyFrom(WinRate(mean=judged, low=low, high=0.8, clusters=40))
    found.result.content_digest = f"blake3:{name}"
    return found


@pytest.fixture(params=range(3))
def world(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    OWNERS.append(Owners())
    with Simulation(request.param, builds={"evaluation": build}) as simulation:
        yield simulation


@pytest.fixture
def stub(world: Simulation) -> ReleaseServiceStub:
    return ReleaseServiceStub(world.channel("evaluation"))


def made(world: Simulation, stub: ReleaseServiceStub, name: str, *comparisons: str) -> Release:
    spec = ReleaseSpec(win=0.5, gap=0.2, kl=15.0)
    for comparison in comparisons or ("comparisons/x",):
        spec.comparisons.append(ReleasedComparison(name=comparison, content_digest=f"blake3:{comparison}"))
    create = CreateReleaseRequest(request_id=name, name=name, spec=spec)
    for _ in range(2):
        world.insist(lambda: stub.CreateRelease(create))
    world.settle()
    return found(world, stub, name)


def found(world: Simulation, stub: ReleaseServiceStub, name: str) -> Release:
    return world.insist(lambda: stub.GetRelease(GetRequest(name=name)))


def later(world: Simulation, stub: ReleaseServiceStub, name: str) -> Release:
    """The release after its evidence was looked at again."""
    world.clock.advance(LOOK_SECONDS)
    world.settle(until=lambda: found(world, stub, name).standing != STANDING_ACTIVE)
    return found(world, stub, name)


def test_a_release_that_passes_is_signed_over_checkpoint_rules_and_evidence(
    world: Simulation, stub: ReleaseServiceStub
) -> None:
    first, second = made(world, stub, "releases/a"), made(world, stub, "releases/b")
    assert (first.state, first.standing, first.checkpoint) == (STATE_DONE, STANDING_ACTIVE, POLICY), first.reason
    assert {each.resource: each.digest for each in first.evidence} == {
        "campaigns/c": JUDGED,
        POLICY: "blake3:policy",
        REWARD: "blake3:reward",
        "comparisons/x": "blake3:comparisons/x",
        "samples/after": "blake3:after",
        "samples/before": "blake3:before",
    }
    key = world.insist(lambda: stub.GetSigningKey(GetSigningKeyRequest())).key
    assert signatures.verifies(signatures.RELEASE, first.statement, first.signature, key)
    assert (first.statement, first.signature) == (second.statement, second.signature)
    said = json.loads(first.statement)
    assert (said["state_digest"], said["rules"]) == ("blake3:policy", {"gap": 0.2, "kl": 15, "win": 0.5})
    assert JUDGED in said["evidence"]
    world.examine()


def test_other_judgements_of_the_same_candidate_are_another_try_and_the_same_ones_are_not(
    world: Simulation, stub: ReleaseServiceStub
) -> None:
    OWNERS[-1].add(compared("comparisons/second", judged=0.71, low=0.66))
    names = ["comparisons/x", "comparisons/x", "comparisons/second"]
    releases = [made(world, stub, f"releases/r{place}", name) for place, name in enumerate(names)]
    (win, again, other) = (each for one in releases for each in one.findings if each.rule == "win")
    assert [each.try_number for each in (win, again, other)] == [1, 1, 2]
    assert [each.level for each in (win, other)] == pytest.approx([0.05 / 2, 0.05 / 6])
    assert 0.66 > win.seen == again.seen > other.seen


def test_a_suspect_checkpoint_is_not_released_and_a_release_of_one_is_stale(
    world: Simulation, stub: ReleaseServiceStub
) -> None:
    made(world, stub, "releases/a")
    OWNERS[-1].known[POLICY].suspect = "the audit of step 20 convicted rank 1"
    refused = made(world, stub, "releases/b")
    assert (refused.state, refused.checkpoint, refused.signature) == (STATE_FAILED, "", "")
    assert later(world, stub, "releases/a").standing == STANDING_STALE


def test_a_release_that_breaks_a_rule_is_refused_with_what_was_seen_and_the_limit(
    world: Simulation, stub: ReleaseServiceStub
) -> None:
    refused = made(world, stub, "releases/a", "comparisons/exploited")
    assert (refused.state, refused.standing, refused.signature) == (STATE_DONE, STANDING_REFUSED, "")
    assert "gap: the gap between promised and judged win rate is 0.75; expected at most 0.2" in refused.reason
    with pytest.raises(Refused, match="is refused; expected a release that passed"):
        world.insist(lambda: stub.RevokeRelease(RevokeReleaseRequest(name="releases/a", reason="late")))


def test_a_release_is_stale_once_an_annotator_behind_it_is_retracted(
    world: Simulation, stub: ReleaseServiceStub
) -> None:
    made(world, stub, "releases/a")
    OWNERS[-1].known["campaigns/c"].result.content_digest = AGAIN
    stale = later(world, stub, "releases/a")
    assert stale.standing == STANDING_STALE
    assert f"campaigns/c has the content {AGAIN}, expected {JUDGED}; an annotator was retracted" in stale.reason


def test_a_release_is_stale_once_its_checkpoint_is_pruned(world: Simulation, stub: ReleaseServiceStub) -> None:
    made(world, stub, "releases/a")
    OWNERS[-1].known[POLICY].state = CHECKPOINT_STATE_PRUNED
    stale = later(world, stub, "releases/a")
    assert (stale.standing, stale.reason) == (STANDING_STALE, f"stale: {POLICY} is pruned; run the recipe again")


def test_a_release_by_the_judgements_of_people_relies_on_their_campaign(
    world: Simulation, stub: ReleaseServiceStub
) -> None:
    people = OWNERS[-1].known["comparisons/x"]
    people.simulated = False
    people.spec.judged.campaign, people.spec.judged.content_digest = "campaigns/people", "blake3:people"
    OWNERS[-1].add(campaign := Campaign(name="campaigns/people"))
    campaign.result.content_digest = "blake3:people"
    release = made(world, stub, "releases/a")
    assert (release.simulated, release.mixed) == (False, False)
    assert ("campaigns/people", "blake3:people") in {(each.resource, each.digest) for each in release.evidence}
    campaign.result.content_digest = AGAIN
    assert later(world, stub, "releases/a").standing == STANDING_STALE


def test_a_release_says_when_people_and_simulated_annotators_have_judged(
    world: Simulation, stub: ReleaseServiceStub
) -> None:
    people = compared("comparisons/people")
    people.simulated = False
    OWNERS[-1].add(people)
    simulated, mixed = made(world, stub, "releases/a"), made(world, stub, "releases/b", "comparisons/x", people.name)
    assert (simulated.simulated, simulated.mixed, mixed.simulated, mixed.mixed) == (True, False, False, True)
    assert "mixed" not in json.loads(simulated.statement)
    assert json.loads(mixed.statement)["mixed"] is True


def test_a_release_does_not_rely_on_what_shaped_the_writer_of_judged_answers(
    world: Simulation, stub: ReleaseServiceStub
) -> None:
    """The judgements of a second round stay when the policy that wrote its answers was made anew."""
    known = OWNERS[-1].known
    known["preferences/p"].spec.others.add(campaign="campaigns/second", content_digest="blake3:second")
    OWNERS[-1].add(campaign := Campaign(name="campaigns/second"))
    campaign.result.content_digest = "blake3:second"
    campaign.spec.answers.add(sample="samples/first")
    OWNERS[-1].add(sample := Sample(name="samples/first"))
    sample.spec.checkpoint = "checkpoints/first/0/2"
    OWNERS[-1].add(Checkpoint(name="checkpoints/first/0/2", job="jobs/first"))
    OWNERS[-1].add(job := Job(name="jobs/first"))
    job.spec.source = "preferences/old"
    OWNERS[-1].add(old := Preferences(name="preferences/old"))
    old.spec.campaign, old.spec.content_digest = "campaigns/c", "blake3:with an annotator who was retracted"
    evidence = made(world, stub, "releases/a").evidence
    judged = {each.resource: each.digest for each in evidence if each.resource.startswith("campaigns/")}
    assert judged == {"campaigns/c": JUDGED, "campaigns/second": "blake3:second"}


def test_a_release_is_revoked_once_with_its_reason(world: Simulation, stub: ReleaseServiceStub) -> None:
    made(world, stub, "releases/a")
    with pytest.raises(InvalidField, match="reason"):
        world.insist(lambda: stub.RevokeRelease(RevokeReleaseRequest(name="releases/a")))
    for reason in ("it insults people", "twice"):
        request = RevokeReleaseRequest(name="releases/a", reason=reason)
        world.insist(lambda: stub.RevokeRelease(request))  # noqa: B023
    world.settle()
    (revoked,) = world.insist(lambda: stub.ListReleases(ListRequest())).releases
    assert (revoked.standing, revoked.reason) == (STANDING_REVOKED, "revoked: it insults people")
    assert world.events[ReleaseRevoked.DESCRIPTOR.full_name] == 1
    world.examine()


def test_a_comparison_that_was_made_anew_is_no_evidence(world: Simulation, stub: ReleaseServiceStub) -> None:
    spec = ReleaseSpec(win=0.5)
    spec.comparisons.append(ReleasedComparison(name="comparisons/x", content_digest="blake3:another"))
    world.insist(lambda: stub.CreateRelease(CreateReleaseRequest(request_id="a", name="releases/a", spec=spec)))
    world.settle()
    failed = found(world, stub, "releases/a")
    assert failed.state == STATE_FAILED
    assert "expected blake3:another" in failed.reason


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (ReleaseSpec(win=0.5), "spec.comparisons"),
        (ReleaseSpec(comparisons=[ReleasedComparison(name="samples/x")], win=0.5), "spec.comparisons.name"),
        (ReleaseSpec(comparisons=[ReleasedComparison(name="comparisons/x")]), "spec"),
        (ReleaseSpec(comparisons=[ReleasedComparison(name="comparisons/x")], win=1.5), "spec.win"),
        (ReleaseSpec(comparisons=[ReleasedComparison(name="comparisons/x")], kl=float("nan")), "spec.kl"),
    ],
)
def test_what_cannot_be_decided_is_refused_by_field(spec: ReleaseSpec, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        check(spec)
    assert refused.value.field == field
