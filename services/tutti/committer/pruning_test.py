"""Retention: what goes, what stays, and in which order."""

import pytest

from tutti.chassis.errors import InvalidField, Refused
from tutti.chassis.events.event import Event
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.contracts.chat.v1 import (
    DEPLOYMENT_STATE_FAILED,
    DEPLOYMENT_STATE_READY,
    DEPLOYMENT_STATE_STARTING,
    DEPLOYMENT_STATE_STOPPED,
    Deployment,
    DeploymentSpec,
    DeploymentState,
)
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    PinCheckpointRequest,
    PruneCheckpointsRequest,
)


def test_retention_keeps_what_is_needed_and_removes_the_rest(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15, 20)
    world.api.PinCheckpoint(PinCheckpointRequest(name="checkpoints/j/0/5", pinned=True), CALL)
    shards = {step: [blob.key for blob in world.manifest(step).blobs] for step in (5, 10, 15, 20)}
    request = PruneCheckpointsRequest(job="jobs/j", keep_last=1, validate_only=True)
    dry = world.api.PruneCheckpoints(request, CALL)
    assert list(dry.checkpoints) == ["checkpoints/j/0/10", "checkpoints/j/0/15"]
    assert world.checkpoint(10).state == CHECKPOINT_STATE_COMMITTED
    request.validate_only = False
    assert world.api.PruneCheckpoints(request, CALL) == dry
    world.settle()
    assert world.checkpoint(10).state == CHECKPOINT_STATE_PRUNED
    keys = {each.key for each in world.blobs.list("committer/manifests/")}
    assert keys == {world.checkpoint(step).manifest_key for step in (5, 20)}
    assert set(shards[10]) <= {each.key for each in world.blobs.list("trainer/shards/")}
    world.clock.advance(700)
    world.settle()
    left = {each.key for each in world.blobs.list("trainer/shards/")}
    assert left == {*shards[5], *shards[20]}
    assert not list(world.api.PruneCheckpoints(request, CALL).checkpoints)
    with pytest.raises(InvalidField, match="keep_last"):
        world.api.PruneCheckpoints(PruneCheckpointsRequest(job="jobs/j"), CALL)
    with pytest.raises(Refused, match="not committed"):
        world.api.PinCheckpoint(PinCheckpointRequest(name="checkpoints/j/0/10", pinned=True), CALL)
    world.api.PinCheckpoint(PinCheckpointRequest(name="checkpoints/j/0/5", pinned=False), CALL)
    assert list(world.api.PruneCheckpoints(request, CALL).checkpoints) == ["checkpoints/j/0/5"]


def test_a_checkpoint_is_kept_while_a_deployment_serves_it(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15, 20)
    request = PruneCheckpointsRequest(job="jobs/j", keep_last=1, validate_only=True)

    def prunable(*deployments: Deployment) -> list[int]:
        handler = next(each.handler for each in world.service.consumes if each.message is Deployment)
        events = [Event("1", "", each.name, 1, world.clock.now(), "", each) for each in deployments]
        world.host.units.run(lambda unit: handler(unit, events))
        chosen = world.api.PruneCheckpoints(request, CALL).checkpoints
        return [int(name.rpartition("/")[2]) for name in chosen]

    def deployment(name: str, step: int, state: "DeploymentState.ValueType") -> Deployment:
        return Deployment(name=name, spec=DeploymentSpec(checkpoint=f"checkpoints/j/0/{step}"), state=state)

    every = [5, 10, 15]
    assert prunable() == every
    assert prunable(deployment("deployments/a", 5, DEPLOYMENT_STATE_STARTING)) == [10, 15]
    assert prunable(deployment("deployments/a", 5, DEPLOYMENT_STATE_READY)) == [10, 15]
    assert prunable(deployment("deployments/b", 5, DEPLOYMENT_STATE_READY)) == [10, 15]
    assert prunable(deployment("deployments/a", 5, DEPLOYMENT_STATE_STOPPED)) == [10, 15]
    assert prunable(deployment("deployments/b", 10, DEPLOYMENT_STATE_READY)) == [5, 15]
    assert prunable(deployment("deployments/b", 10, DEPLOYMENT_STATE_FAILED)) == every
