"""The progress of runs that train, asked of the scheduler in one call for all runs of a list. Pure.

Promises: a run that has ended costs nothing; its figures are kept with it.
"""

from collections.abc import Iterable, Sequence

from google.protobuf.field_mask_pb2 import FieldMask

from tutti.contracts.common.v1 import STATE_RUNNING, ListRequest
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.scheduler.v1 import Job
from tutti.pipeline.definitions.trainingstage import progress_of

GOING = ListRequest(
    filter="state=running",
    page_size=1000,
    read_mask=FieldMask(paths=["name", "step", "loss", "bits_per_byte", "line", "decided_step", "spec.steps"]),
)
"""The jobs that train, with the fields that a list of runs shows."""


def going(runs: Iterable[Run]) -> bool:
    """True if a run trains, so that its progress is worth a call."""
    return any(run.state == STATE_RUNNING and job_of(run) for run in runs)


def add(runs: Sequence[Run], jobs: Iterable[Job]) -> Sequence[Run]:
    """The same runs; those that train get the progress of their job."""
    by_name = {job.name: job for job in jobs}
    for run in runs:
        if run.state == STATE_RUNNING and (job := by_name.get(job_of(run))):
            run.training.CopyFrom(progress_of(job))
    return runs


def job_of(run: Run) -> str:
    """The newest training of a run that has begun; "" without one."""
    return next((stage.resource for stage in reversed(run.stages) if stage.resource.startswith("jobs/")), "")
