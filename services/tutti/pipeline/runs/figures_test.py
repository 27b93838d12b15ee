"""The figures of a run are kept with it; a list asks for those of runs that train, and for no others."""

from pathlib import Path

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from tutti.chassis.errors import Unavailable
from tutti.chassis.rpc import watch
from tutti.contracts.admin.v1 import WatchRequest
from tutti.contracts.common.v1 import (
    STATE_CANCELLED,
    STATE_DONE,
    STATE_FAILED,
    CancelRequest,
    GetRequest,
    ListRequest,
)
from tutti.contracts.pipeline.v1 import CreateRunRequest, Run, RunTraining
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_OPENING,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    Job,
    JobState,
)
from tutti.model.chunks import Layout
from tutti.model.training import Training
from tutti.pipeline.world_test import CALL, World
from tutti.report.comparing import training_of


def kept(world: World, name: str) -> Run:
    """A run as a list has it: without what GetRun adds."""
    found: Run = world.host.units.run(lambda unit: world.service.resources[0].get(unit, name))
    return found


def test_a_run_keeps_its_figures_and_one_that_reuses_everything_has_the_same(tmp_path: Path) -> None:
    world = World(tmp_path)
    name = world.create().name
    world.finish("ingest", "filter", "dedup", "tokenization")
    assert (kept(world, name).figures.tokens, kept(world, name).figures.HasField("training")) == (0, False)
    job = next(each for each in world.train.made.values() if isinstance(each, Job))
    job.step, job.loss, job.bits_per_byte, job.model_digest = 10, 9.0, 1.25, "blake3:model"
    world.finish_train()
    told = kept(world, name).figures.training
    assert (told.job, told.step, told.steps, told.bits_per_byte) == (job.name, 10, job.spec.steps, 1.25)
    assert told.loss == 2.5  # the mean of the newest steps of the curve, and not what the job reported last
    assert told.parameters == Layout(Training.from_json(job.spec.training).model).parameters
    assert (told.checkpoint, told.model_digest) == (f"checkpoints/{job.name[5:]}/0/10", "blake3:model")
    repeated = world.api.CreateRun(CreateRunRequest(again=name), CALL).run
    world.settle()
    assert kept(world, repeated.name).state == STATE_DONE
    assert kept(world, repeated.name).figures == kept(world, name).figures
    world.train.down = Unavailable("not now")
    assert world.run(name).figures.training == told


def test_a_run_whose_training_failed_keeps_how_far_it_was(tmp_path: Path) -> None:
    world = World(tmp_path)
    name = world.create().name
    world.finish("ingest", "filter", "dedup", "tokenization")
    job = next(each for each in world.train.made.values() if isinstance(each, Job))
    job.step, job.loss = 7, 42.0
    world.fail_train("the loss is not finite")
    found = kept(world, name)
    assert (found.state, found.figures.training.step, found.figures.training.loss) == (STATE_FAILED, 7, 42.0)
    assert found.figures.HasField("tokens")


def test_a_run_that_is_cancelled_keeps_the_last_step_and_loss_that_are_known(tmp_path: Path) -> None:
    world = World(tmp_path)
    name = world.create().name
    world.finish("ingest", "filter", "dedup", "tokenization")
    job = next(each for each in world.train.made.values() if isinstance(each, Job))
    job.state, job.step, job.loss = JOB_STATE_RUNNING, 7, 3.5
    cancelled = world.api.CancelRun(CancelRequest(name=name), CALL)
    assert (cancelled.state, cancelled.figures.training.step) == (STATE_CANCELLED, 7)
    world.settle()
    found = kept(world, name).figures.training
    assert (found.job, found.step, found.loss, found.steps) == (job.name, 7, 3.5, job.spec.steps)


def test_a_run_is_cancelled_without_figures_if_the_scheduler_is_away(tmp_path: Path) -> None:
    world = World(tmp_path)
    name = world.create().name
    world.finish("ingest", "filter", "dedup", "tokenization")
    world.train.down = Unavailable("not now")
    cancelled = world.api.CancelRun(CancelRequest(name=name), CALL)
    assert (cancelled.state, cancelled.figures.HasField("training")) == (STATE_CANCELLED, False)


@pytest.mark.parametrize("state", [JOB_STATE_QUEUED, JOB_STATE_OPENING, JOB_STATE_STARTING, JOB_STATE_STOPPING])
def test_a_run_that_resumes_has_the_step_from_which_it_does(state: JobState.ValueType, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create()
    world.finish("ingest", "filter", "dedup", "tokenization")
    job = next(each for each in world.train.made.values() if isinstance(each, Job))
    job.state, job.step, job.loss, job.decided_step = state, 6, 3.5, 6
    (found,) = listed(world)
    assert (training_of(found).step, training_of(found).loss) == (6, 3.5)


def listed(world: World, *fields: str) -> list[Run]:
    request = ListRequest(read_mask=FieldMask(paths=fields))
    runs: list[Run] = list(world.api.ListRuns(request, CALL).runs)
    return runs


def test_a_list_has_the_progress_of_runs_that_train_by_one_call_for_all_of_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    names = [world.create().name]
    world.finish("ingest", "filter", "dedup", "tokenization")
    names.append(world.create("train.learning_rate=0.001").name)  # it reuses the texts
    jobs = [each for each in world.train.made.values() if isinstance(each, Job)]
    for step, job in enumerate(jobs, 3):
        job.state, job.step, job.loss = JOB_STATE_RUNNING, step, 10.0 - step
        world.hear(job)
    world.train.calls.clear()
    found = {each.name: training_of(each) for each in listed(world)}
    assert sorted((found[name].step, found[name].loss) for name in names) == [(3, 7.0), (4, 6.0)]
    assert [each.training.step for each in listed(world, "name")] == [0, 0]
    assert {each.training.step for each in listed(world, "training.step")} == {3, 4}
    assert {each.input_path for each in listed(world, "input_path")} == {str(tmp_path / "pages")}
    assert not any(each.input_path for each in listed(world, "name"))
    assert world.train.calls.count("list jobs") == len(world.train.calls) == 2
    world.train.down = Unavailable("not now")
    assert {each.name: each.training for each in listed(world)} == {
        name: RunTraining(job=watched(world, name).training.job) for name in names
    }


def watched(world: World, name: str) -> Run:
    """A run as a watch has it."""
    resource = world.service.resources[0]
    found = watch.snapshot(world.host.units, resource, WatchRequest(name=name), CALL.principal)
    assert found is not None
    run = Run()
    assert found.resource.Unpack(run)
    return run


def test_a_watch_has_the_job_of_a_run_that_trains_and_the_figures_of_one_that_trained(tmp_path: Path) -> None:
    world = World(tmp_path)
    name = world.create().name
    assert not watched(world, name).HasField("training")
    world.finish("ingest", "filter", "dedup", "tokenization")
    job = next(each for each in world.train.made.values() if isinstance(each, Job))
    job.step, job.loss, job.bits_per_byte = 10, 9.0, 1.25
    assert watched(world, name).training == RunTraining(job=job.name)
    world.finish_train()
    found = watched(world, name)
    assert found.training == found.figures.training
    assert (found.training.job, found.training.step, found.training.loss) == (job.name, 10, 2.5)


def test_a_list_has_the_figures_of_runs_that_trained_and_a_mask_may_ask_for_one_of_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    name = world.create().name
    world.finish()
    world.train.down = Unavailable("not now")
    (found,) = listed(world)
    assert found.training == found.figures.training == world.run(name).training
    assert found.training.steps == 20
    assert listed(world, "training.steps") == [Run(training=RunTraining(steps=20))]
    asked = GetRequest(name=name, read_mask=FieldMask(paths=["training.steps"]))
    assert world.api.GetRun(asked, CALL) == Run(training=RunTraining(steps=20))


def test_a_list_of_runs_that_ended_asks_no_other_service(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create()
    world.finish()
    world.train.calls.clear()
    (found,) = listed(world)
    assert (found.state, training_of(found).steps, world.train.calls) == (STATE_DONE, 20, [])
