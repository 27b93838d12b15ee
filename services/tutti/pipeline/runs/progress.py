"""The progress of runs that train, asked of the scheduler for all runs of a list together. Pure.

Promises: a run that has ended costs nothing, since its figures are kept with it; if all trainings run, one call is
enough. One that waits or resumes has the step and the loss that are known.
"""

from collections.abc import Iterable, Sequence

from google.protobuf.field_mask_pb2 import FieldMask

from tutti.contracts.common.v1 import STATE_RUNNING, ListRequest
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.scheduler.v1 import Job
from tutti.pipeline.definitions.trainingstage import progress_of

FIELDS = ("name", "step", "loss", "bits_per_byte", "line", "decided_step", "spec.steps")
GOING = tuple(
    ListRequest(filter=f"state={state}", page_size=1000, read_mask=FieldMask(paths=FIELDS))
    for state in ("running", "starting", "queued", "opening", "stopping")
)
"""The jobs that have not ended, by state, with the fields that a list of runs shows."""


def going(runs: Iterable[Run]) -> bool:
    """True if a run trains whose progress was not added yet, so that it is worth a call."""
    return any(_trains(run) and not run.HasField("training") for run in runs)


def add(runs: Sequence[Run], jobs: Iterable[Job]) -> Sequence[Run]:
    """The same runs; those that train get the progress of their job."""
    by_name = {job.name: job for job in jobs}
    for run in runs:
        if _trains(run) and (job := by_name.get(job_of(run))):
            run.training.CopyFrom(progress_of(job))
    return runs


def current(run: Run) -> str:
    """The training that is under way in a run; "" if none is."""
    return job_of(run) if _trains(run) else ""


def _trains(run: Run) -> bool:
    return run.state == STATE_RUNNING and any(
        stage.state == STATE_RUNNING and stage.resource == job_of(run) for stage in run.stages
    )


def job_of(run: Run) -> str:
    """The newest training of a run that has begun; "" without one."""
    return next((stage.resource for stage in reversed(run.stages) if stage.resource.startswith("jobs/")), "")
