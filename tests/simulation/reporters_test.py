"""Reports about a job: only a node that held a rank of the epoch reports of it, and only what the epoch made."""

from collections.abc import Iterator

import pytest
from sqlalchemy import MetaData

from tests.policies import epoch_of, report_of
from tutti.chassis.errors import InvalidField, PermissionDenied, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.committer.records import DecisionRow, Records
from tutti.committer.service import build as build_committer
from tutti.committer.tables import Tables
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.sampling.v1 import EXPERIENCE_STATE_STORED, Experience
from tutti.contracts.sampling.v1.stubs import ExperienceServiceStub
from tutti.sampling.experiences_test import experience
from tutti.sampling.service import build as build_sampling
from tutti.simulation import Simulation

KEPT = {"sampling": {"experience_iterations": 2}}


@pytest.fixture
def world() -> Iterator[Simulation]:
    builds = {"committer": build_committer, "sampling": build_sampling}
    with Simulation(0, builds=builds, rates={}, settings=KEPT) as world:
        yield world


def open_epoch(world: Simulation, epoch: int, *nodes: str) -> None:
    CommitterServiceStub(world.channel("committer", Role.SERVICE)).OpenEpoch(epoch_of("jobs/j", epoch, *nodes))


def decide(world: Simulation, epoch: int, step: int) -> None:
    """Plant a decision of a step; a real one needs the shards of a whole state."""
    name, digest = f"checkpoints/j/0/{step}", f"blake3:{'0' * 64}"
    row = DecisionRow(name, "j", 0, step, epoch, digest, "planted", b"", published=1)
    world.peek("committer", lambda unit: Records(Tables(MetaData())).add_decision(unit, row))


def report(
    world: Simulation, node: str, epoch: int, iteration: int = 0, *, stored_by: str = "", named: bool = True
) -> Experience:
    found = experience(iteration)
    request = report_of("jobs/j", found, node=node, epoch=epoch)
    if stored_by:
        request.key = f"{request.key.partition('=')[0]}={stored_by}"
    world.world.blobs.put_if_absent(request.key, found.encode())
    request.node = node if named else ""
    return ExperienceServiceStub(world.channel("sampling", Role.AGENT)).ReportExperience(request)


def stored(world: Simulation) -> list[int]:
    """The iterations whose rollouts can be read."""
    world.settle()
    listed = ExperienceServiceStub(world.channel("sampling")).ListExperiences(ListRequest()).experiences
    return [each.iteration for each in listed if each.state == EXPERIENCE_STATE_STORED]


def test_a_stranger_reports_no_experience(world: Simulation) -> None:
    with pytest.raises(Unavailable):
        report(world, "nodes/a", 1)
    open_epoch(world, 1, "nodes/a", "nodes/b")
    open_epoch(world, 2, "nodes/b", "nodes/b")
    decide(world, 1, 5)
    for node, epoch in (("nodes/stranger", 1), ("nodes/stranger", 0), ("nodes/a", 2)):
        with pytest.raises(PermissionDenied) as caught:
            report(world, node, epoch)
        assert caught.value.reason == "NO_RANK"
    with pytest.raises(Unavailable):
        report(world, "nodes/a", 3)
    with pytest.raises(InvalidField, match="key"):
        report(world, "nodes/a", 1, stored_by="stranger")
    assert report(world, "nodes/a", 1).name == "experiences/j/0/0"


def test_a_node_of_a_sealed_epoch_neither_removes_rollouts_nor_takes_the_place_of_later_ones(world: Simulation) -> None:
    open_epoch(world, 1, "nodes/a", "nodes/b")
    open_epoch(world, 2, "nodes/b", "nodes/b")
    decide(world, 1, 10)
    for iteration in (2, 3):
        report(world, "nodes/b", 2, iteration)
    for iteration in (102, 4, 2):
        with pytest.raises(PermissionDenied) as caught:
            report(world, "nodes/a", 1, iteration)
        assert caught.value.reason == "NOT_ITS_ITERATION"
        for named in (True, False):
            with pytest.raises(PermissionDenied, match="held no rank"):
                report(world, "nodes/a", 0, iteration, named=named)
    assert stored(world) == [2, 3]
    assert report(world, "nodes/a", 1, 1).iteration == 1  # it was made before the epoch was sealed, and told late
    assert stored(world) == [1, 2, 3]


def test_an_epoch_reports_no_iteration_of_another_line_or_of_the_epochs_before_it(world: Simulation) -> None:
    open_epoch(world, 1, "nodes/a")
    open_epoch(world, 2, "nodes/a")
    decide(world, 1, 5)
    for epoch, iteration in ((1, 1), (2, 0), (2, 200)):
        with pytest.raises(PermissionDenied) as caught:
            report(world, "nodes/a", epoch, iteration)
        assert caught.value.reason == "NOT_ITS_ITERATION"
    found = experience(1)
    elsewhere = report_of("jobs/j", found, node="nodes/a", epoch=2)
    elsewhere.line, elsewhere.key = 1, elsewhere.key.replace("/j/0/", "/j/1/")
    world.world.blobs.put_if_absent(elsewhere.key, found.encode())
    with pytest.raises(PermissionDenied):
        ExperienceServiceStub(world.channel("sampling", Role.AGENT)).ReportExperience(elsewhere)
    for epoch, iteration in ((1, 0), (2, 1), (2, 2)):
        report(world, "nodes/a", epoch, iteration)


def test_an_agent_of_an_earlier_version_reports_as_the_node_that_stored_the_blob(world: Simulation) -> None:
    open_epoch(world, 1, "nodes/a")
    with pytest.raises(PermissionDenied):
        report(world, "nodes/a", 0, stored_by="stranger", named=False)
    assert report(world, "nodes/a", 0, named=False).name == "experiences/j/0/0"
