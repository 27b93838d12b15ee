"""Uses: which resources of other services read a checkpoint, or will; what is in use is not pruned.

Promises: follows from the events of their owners, so that work which is just being asked for may come too late; it then
says that its checkpoint was pruned. The checkpoints that a job begins with or reads are also recorded when it opens an
epoch, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Table, delete, insert, select

from tutti.chassis.events.event import Event
from tutti.chassis.service import Consumed
from tutti.chassis.store.unit import Unit
from tutti.contracts.chat.v1 import DEPLOYMENT_STATE_FAILED, DEPLOYMENT_STATE_STOPPED, Deployment
from tutti.contracts.common.v1 import STATE_PENDING, STATE_RUNNING
from tutti.contracts.evaluation.v1 import STANDING_ACTIVE, Release
from tutti.contracts.sampling.v1 import Export, Sample
from tutti.contracts.scheduler.v1 import JOB_STATE_CANCELLED, JOB_STATE_DONE, JOB_STATE_FAILED, Job
from tutti.model.training import Training

Handler = Callable[[Unit, Sequence[Event]], None]


class Uses:
    """`table` has a row for each checkpoint of each resource that uses some."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def consumed(self) -> list[Consumed]:
        """The events that say who uses what, apart from jobs."""
        return [
            Consumed(Deployment, self._on(_of_deployment)),
            Consumed(Release, self._on(_of_release)),
            Consumed(Sample, self._on(_of_work)),
            Consumed(Export, self._on(_of_work)),
        ]

    def on_job(self, unit: Unit, events: Sequence[Event]) -> None:
        """Consume jobs."""
        self._on(_of_job)(unit, events)

    def record(self, unit: Unit, user: str, checkpoints: Collection[str]) -> None:
        """A resource uses these checkpoints, and no others."""
        table = self._table
        before = set(unit.tx.execute(select(table.c.checkpoint).where(table.c.used_by == user)).scalars())
        if before == set(checkpoints):
            return
        unit.tx.execute(delete(table).where(table.c.used_by == user))
        for name in sorted(set(checkpoints)):
            unit.tx.execute(insert(table), {"used_by": user, "checkpoint": name})

    def by_checkpoint(self, unit: Unit) -> dict[str, list[str]]:
        """The names of the resources that use each checkpoint that is in use."""
        found: dict[str, list[str]] = {}
        for checkpoint, user in unit.tx.execute(select(self._table.c.checkpoint, self._table.c.used_by)):
            found.setdefault(checkpoint, []).append(user)
        return found

    def users(self, unit: Unit, checkpoint: str) -> list[str]:
        """The names of the resources that use a checkpoint."""
        table = self._table
        return list(unit.tx.execute(select(table.c.used_by).where(table.c.checkpoint == checkpoint)).scalars())

    def _on(self, used: Callable[..., Collection[str]]) -> Handler:
        def handle(unit: Unit, events: Sequence[Event]) -> None:
            for event in events:
                self.record(unit, event.message.name, used(event.message))

        return handle


def read_by(training: Training) -> set[str]:
    """The checkpoints that a training begins with, or reads."""
    begins = [training.initial.checkpoint] if training.initial else []
    return {*begins, *(each.checkpoint for each in training.models)}


def _of_deployment(deployment: Deployment) -> Collection[str]:
    ended = deployment.state in (DEPLOYMENT_STATE_STOPPED, DEPLOYMENT_STATE_FAILED)
    return () if ended else (deployment.spec.checkpoint,)


def _of_release(release: Release) -> Collection[str]:
    return (release.checkpoint,) if release.standing == STANDING_ACTIVE and release.checkpoint else ()


def _of_work(work: Sample | Export) -> Collection[str]:
    return (work.spec.checkpoint,) if work.state in (STATE_PENDING, STATE_RUNNING) else ()


def _of_job(job: Job) -> Collection[str]:
    """The checkpoints that an open job begins with or reads; none for an ended job."""
    training = job.spec.typed_training
    if job.state in (JOB_STATE_DONE, JOB_STATE_FAILED, JOB_STATE_CANCELLED):
        return ()
    begins = [training.initial.checkpoint] if training.HasField("initial") else []
    return {*begins, *(each.checkpoint for each in training.models)}
