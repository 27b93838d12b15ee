"""Reports about a job: only a node that held a rank of the epoch reports of it, whatever agent it is."""

from collections.abc import Iterator

import pytest

from tests.simulation.story import EXPERIENCE
from tutti.chassis.errors import InvalidField, PermissionDenied, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.checkpoints import example_test as example
from tutti.committer.service import build as build_committer
from tutti.contracts.committer.v1 import OpenEpochRequest
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.sampling.v1 import Experience, ReportExperienceRequest
from tutti.contracts.sampling.v1.stubs import ExperienceServiceStub
from tutti.model.plan import Shape
from tutti.model.shapes import to_wire
from tutti.sampling.service import build as build_sampling
from tutti.simulation import Simulation


@pytest.fixture
def world() -> Iterator[Simulation]:
    with Simulation(0, builds={"committer": build_committer, "sampling": build_sampling}, rates={}) as world:
        yield world


def open_epoch(world: Simulation, epoch: int, *nodes: str) -> None:
    made = example.training(steps=20)
    request = OpenEpochRequest(
        job="jobs/j",
        epoch=epoch,
        shape=to_wire(Shape(len(nodes))),
        training=made.to_json(),
        training_digest=made.digest(),
        dataset_digest=made.dataset,
        nodes=len(set(nodes)),
        placement=nodes,
    )
    CommitterServiceStub(world.channel("committer", Role.SERVICE)).OpenEpoch(request)


def report(world: Simulation, node: str, epoch: int, stored_by: str = "") -> Experience:
    digest = EXPERIENCE.digest.removeprefix("blake3:")
    key = f"trainer/experiences/j/0/0/{digest}={stored_by or node.removeprefix('nodes/')}"
    world.world.blobs.put_if_absent(key, EXPERIENCE.encode())
    request = ReportExperienceRequest(job="jobs/j", key=key, digest=EXPERIENCE.digest, node=node, epoch=epoch)
    return ExperienceServiceStub(world.channel("sampling", Role.AGENT)).ReportExperience(request)


def test_a_stranger_reports_no_experience(world: Simulation) -> None:
    with pytest.raises(Unavailable):
        report(world, "nodes/a", 1)
    open_epoch(world, 1, "nodes/a", "nodes/b")
    open_epoch(world, 2, "nodes/b", "nodes/b")
    for node, epoch in (("nodes/stranger", 1), ("nodes/stranger", 0), ("nodes/a", 2)):
        with pytest.raises(PermissionDenied) as caught:
            report(world, node, epoch)
        assert caught.value.reason == "NO_RANK"
    with pytest.raises(Unavailable):
        report(world, "nodes/a", 3)
    with pytest.raises(InvalidField, match="key"):
        report(world, "nodes/a", 1, stored_by="stranger")
    assert report(world, "nodes/a", 1).name == "experiences/j/0/0"


def test_an_agent_of_an_earlier_version_reports_as_the_node_that_stored_the_blob(world: Simulation) -> None:
    open_epoch(world, 1, "nodes/a")
    with pytest.raises(PermissionDenied):
        report(world, "", 0, stored_by="stranger")
    assert report(world, "", 0, stored_by="a").name == "experiences/j/0/0"
