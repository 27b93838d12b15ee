"""The newest training of a run: what is kept with the run, and the progress of jobs that the scheduler has. Pure.

Promises: a run that has ended costs nothing, since its figures are kept with it; if all trainings run, one call is
enough. One that waits or resumes has the step and the loss that are known.
"""

from collections.abc import Callable, Iterable, Sequence

from google.protobuf.field_mask_pb2 import FieldMask

from tutti.contracts.common.v1 import STATE_RUNNING, ListRequest
from tutti.contracts.pipeline.v1 import Run, RunTraining
from tutti.contracts.scheduler.v1 import Job
from tutti.pipeline.definitions.trainingstage import progress_of

FIELDS = ("name", "step", "loss", "bits_per_byte", "line", "decided_step", "spec.steps")
GOING = tuple(
    ListRequest(filter=f"state={state}", page_size=1000, read_mask=FieldMask(paths=FIELDS))
    for state in ("running", "starting", "queued", "opening", "stopping")
)
"""The jobs that have not ended, by state, with the fields that a list of runs shows."""


def kept(run: Run) -> Run:
    """The same run, with its newest training as far as the run knows it: the figures of one that ended, or its name."""
    if job := job_of(run):
        known = run.figures.training
        run.training.CopyFrom(known if known.job == job else RunTraining(job=job))
    return run


def going(runs: Iterable[Run]) -> set[str]:
    """The trainings that are under way in runs."""
    return {current(run) for run in runs} - {""}


def fill(runs: Sequence[Run], ask: Callable[[ListRequest], Iterable[Job]]) -> None:
    """Add the progress of the runs that train, by as few requests as have all their jobs."""
    left = going(runs)
    for request in GOING:
        if not left:
            return
        jobs = list(ask(request))
        add(runs, jobs)
        left -= {job.name for job in jobs}


def add(runs: Sequence[Run], jobs: Iterable[Job]) -> Sequence[Run]:
    """The same runs; those that train get the progress of their job."""
    by_name = {job.name: job for job in jobs}
    for run in runs:
        if job := by_name.get(current(run)):
            run.training.CopyFrom(progress_of(job))
    return runs


def current(run: Run) -> str:
    """The training that is under way in a run; "" if none is."""
    job = job_of(run)
    trains = any(stage.state == STATE_RUNNING and stage.resource == job for stage in run.stages)
    return job if run.state == STATE_RUNNING and trains else ""


def job_of(run: Run) -> str:
    """The newest training of a run that has begun; "" without one."""
    return next((stage.resource for stage in reversed(run.stages) if stage.resource.startswith("jobs/")), "")
