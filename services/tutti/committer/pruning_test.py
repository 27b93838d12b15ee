"""Retention: what goes, what stays, and in which order; imports are pruned where nobody needs them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.events.event import Event
from tutti.checkpoints.keys import IMPORTS, MANIFESTS
from tutti.committer.imports_test import checkpoint, imported, keys
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
    VerifyCheckpointRequest,
)
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_PENDING, STATE_RUNNING
from tutti.contracts.common.v1 import Initial as WireInitial
from tutti.contracts.common.v1 import RoleModel as WireModel
from tutti.contracts.common.v1 import Training as WireTraining
from tutti.contracts.evaluation.v1 import STANDING_ACTIVE, STANDING_REVOKED, Release
from tutti.contracts.sampling.v1 import Export, ExportSpec, Sample, SampleSpec
from tutti.contracts.scheduler.v1 import JOB_STATE_CANCELLED, JOB_STATE_QUEUED, JOB_STATE_RUNNING, Job, JobSpec
from tutti.corpus.tokens.dataset import TOKENIZERS
from tutti.model.training import Initial, Training


def test_retention_keeps_what_is_needed_and_removes_the_rest(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10, 15, 20)
    world.api.PinCheckpoint(PinCheckpointRequest(name="checkpoints/j/0/5", pinned=True), CALL)
    shards = {step: [blob.key for blob in world.manifest(step).blobs] for step in (5, 10, 15, 20)}
    request = PruneCheckpointsRequest(job="jobs/j", keep_last=1, validate_only=True)
    dry = world.api.PruneCheckpoints(request, CALL)
    assert list(dry.checkpoints) == ["checkpoints/j/0/10", "checkpoints/j/0/15"]
    assert [(each.name, bool(each.reasons)) for each in dry.kept] == [
        ("checkpoints/j/0/5", True),
        ("checkpoints/j/0/20", True),
    ]
    assert dry.grace_seconds == 600
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
    prunable(deployment("deployments/a", 5, DEPLOYMENT_STATE_READY))
    kept = {each.name: " ".join(each.reasons) for each in world.api.PruneCheckpoints(request, CALL).kept}
    assert "deployments/a" in kept["checkpoints/j/0/5"]
    assert prunable(deployment("deployments/a", 5, DEPLOYMENT_STATE_STARTING)) == [10, 15]
    assert prunable(deployment("deployments/a", 5, DEPLOYMENT_STATE_READY)) == [10, 15]
    assert prunable(deployment("deployments/b", 5, DEPLOYMENT_STATE_READY)) == [10, 15]
    assert prunable(deployment("deployments/a", 5, DEPLOYMENT_STATE_STOPPED)) == [10, 15]
    assert prunable(deployment("deployments/b", 10, DEPLOYMENT_STATE_READY)) == [5, 15]
    assert prunable(deployment("deployments/b", 10, DEPLOYMENT_STATE_FAILED)) == every


def on(world: Rehearsal, *messages: Message) -> None:
    """Events of other services arrive."""
    for message in messages:
        handler = next(each.handler for each in world.service.consumes if each.message is type(message))
        event = Event("1", "", message.name, 1, world.clock.now(), "", message)  # type: ignore[attr-defined]
        world.host.units.run(lambda unit: handler(unit, [event]))  # noqa: B023


def prune(world: Rehearsal, name: str, *, dry: bool = False) -> list[str]:
    request = PruneCheckpointsRequest(checkpoint=name, validate_only=dry)
    return list(world.api.PruneCheckpoints(request, CALL).checkpoints)


@pytest.fixture
def base(world: Rehearsal, folder: Path) -> str:
    """The name of an import."""
    return str(imported(world, folder).checkpoint)


def begun(world: Rehearsal, base: str, **more: Any) -> Training:
    """A training that begins with an import."""
    found = checkpoint(world, base)
    return replace(world.training, initial=Initial(found.name, found.folder_digest), **more)


def test_an_import_that_nobody_needs_is_pruned_and_comes_back_when_its_folder_is_imported_again(
    world: Rehearsal, base: str, folder: Path
) -> None:
    stored, tokenizers = keys(world, IMPORTS), keys(world, TOKENIZERS)
    assert prune(world, base, dry=True) == [base]
    assert checkpoint(world, base).state == CHECKPOINT_STATE_COMMITTED
    assert prune(world, base) == [base]
    assert prune(world, base) == []
    world.settle()
    assert (keys(world, MANIFESTS), keys(world, IMPORTS)) == ([], stored)
    early = imported(world, folder, "imports/early")
    assert early.state == STATE_FAILED
    assert "was pruned" in early.reason
    world.clock.advance(700)
    world.settle()
    assert (keys(world, IMPORTS), keys(world, TOKENIZERS)) == ([], tokenizers)
    again = imported(world, folder, "imports/again")
    assert (again.state, again.checkpoint) == (STATE_DONE, base), again.reason
    assert (keys(world, IMPORTS), checkpoint(world, base).state) == (stored, CHECKPOINT_STATE_COMMITTED)
    assert world.api.VerifyCheckpoint(VerifyCheckpointRequest(name=base), CALL).ok
    world.clock.advance(700)
    world.settle()
    assert keys(world, IMPORTS) == stored


def test_an_import_is_kept_for_all_who_need_it_and_they_are_named(world: Rehearsal, base: str) -> None:
    initial = WireTraining(initial=WireInitial(checkpoint=base))
    reference = WireTraining(models=[WireModel(role="reference", checkpoint=base)])
    specs = [JobSpec(typed_training=each) for each in (initial, reference)]
    using: list[tuple[Any, Any]] = [
        (Job(name=f"jobs/{nth}", spec=spec, state=state), Job(name=f"jobs/{nth}", spec=spec, state=JOB_STATE_CANCELLED))
        for nth, (spec, state) in enumerate(zip(specs, (JOB_STATE_QUEUED, JOB_STATE_RUNNING), strict=True))
    ]
    served = DeploymentSpec(checkpoint=base)
    using += [
        (
            Deployment(name="deployments/a", spec=served, state=DEPLOYMENT_STATE_READY),
            Deployment(name="deployments/a", spec=served, state=DEPLOYMENT_STATE_STOPPED),
        ),
        (
            Release(name="releases/a", checkpoint=base, standing=STANDING_ACTIVE),
            Release(name="releases/a", checkpoint=base, standing=STANDING_REVOKED),
        ),
        (
            Sample(name="samples/a", spec=SampleSpec(checkpoint=base), state=STATE_PENDING),
            Sample(name="samples/a", spec=SampleSpec(checkpoint=base), state=STATE_DONE),
        ),
        (
            Export(name="exports/a", spec=ExportSpec(checkpoint=base), state=STATE_RUNNING),
            Export(name="exports/a", spec=ExportSpec(checkpoint=base), state=STATE_FAILED),
        ),
    ]
    on(world, *(before for before, _ in using))
    world.api.PinCheckpoint(PinCheckpointRequest(name=base, pinned=True), CALL)
    for before, after in using:
        for dry in (True, False):
            with pytest.raises(Refused, match=before.name) as refused:
                prune(world, base, dry=dry)
            assert refused.value.reason == "CHECKPOINT_IN_USE"
        on(world, after)
    with pytest.raises(Refused, match="a pin"):
        prune(world, base)
    world.api.PinCheckpoint(PinCheckpointRequest(name=base, pinned=False), CALL)
    assert prune(world, base) == [base]


def test_an_import_is_kept_for_a_job_from_its_first_epoch_on_as_long_as_a_checkpoint_of_it_is_there(
    world: Rehearsal, base: str
) -> None:
    world.training = begun(world, base)
    world.open_epoch(1, 2)
    with pytest.raises(Refused, match="jobs/j"):
        prune(world, base)
    world.commit(5)
    on(world, Job(name="jobs/j", state=JOB_STATE_CANCELLED))
    with pytest.raises(Refused, match="jobs/j"):
        prune(world, base)


def test_a_job_that_begins_with_a_pruned_import_is_refused(world: Rehearsal, base: str) -> None:
    assert prune(world, base) == [base]
    world.training = begun(world, base)
    with pytest.raises(Refused, match="was pruned") as refused:
        world.open_epoch(1, 2)
    assert refused.value.reason == "BASE_UNUSABLE"


def test_a_checkpoint_of_a_job_is_pruned_with_its_job_alone(world: Rehearsal, base: str) -> None:
    world.open_epoch(1, 2)
    world.commit(5, 10)
    with pytest.raises(InvalidField, match="by its name"):
        prune(world, "checkpoints/j/0/5")
    with pytest.raises(InvalidField, match="alone"):
        world.api.PruneCheckpoints(PruneCheckpointsRequest(job="jobs/j", checkpoint=base), CALL)
    with pytest.raises(NotFound):
        prune(world, "checkpoints/import-nosuch/0/0")
