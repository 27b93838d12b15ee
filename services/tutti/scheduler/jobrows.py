"""Jobs as rows: the resource, and its history in a table beside it.

Promises: a line of history that a step of the job adds is recorded with the job, in the same transaction; the newest
lines are kept; neither the job's row nor its events carry them.
"""

from sqlalchemy import BigInteger, Column, MetaData, String, Text, delete, insert, select

from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import declare, micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import Job
from tutti.scheduler.jobs import HISTORY_LINES


class Jobs(Resource[Job]):
    """`history` of a job that is put holds the new lines; versions before 0.2 left all lines in the row."""

    def __init__(self, metadata: MetaData) -> None:
        super().__init__(metadata, "jobs", Job, {"state": lambda job: int(job.state)})
        self.lines = declare(
            "job_history",
            metadata,
            Column("job", String(200), primary_key=True),
            Column("number", BigInteger, primary_key=True),
            Column("line", Text, nullable=False),
            Column("at", BigInteger, nullable=False, server_default="0"),
        )

    def put(self, unit: Unit, message: Job) -> Job:
        if not message.history:
            return super().put(unit, message)
        job = Job()
        job.CopyFrom(message)
        rows = [
            {"job": job.name, "number": number, "line": line, "at": micros(unit.now)}
            for number, line in enumerate(job.history, start=job.history_lines + 1)
        ]
        job.history_lines += len(rows)
        del job.history[:]
        put = super().put(unit, job)
        forgotten = self.lines.c.number <= job.history_lines - HISTORY_LINES
        unit.tx.execute(delete(self.lines).where(self.lines.c.job == job.name, forgotten))
        unit.tx.execute(insert(self.lines), rows)
        return put

    def history(self, unit: Unit, job: Job) -> list[str]:
        """The newest lines, the newest last."""
        rows = select(self.lines.c.line).where(self.lines.c.job == job.name).order_by(self.lines.c.number)
        return [*unit.tx.execute(rows).scalars(), *job.history]

    def with_history(self, unit: Unit, job: Job) -> Job:
        """Return the job with its history, and the times of its lines."""
        rows = select(self.lines).where(self.lines.c.job == job.name).order_by(self.lines.c.number)
        found = [(row.line, row.at) for row in unit.tx.execute(rows)] + [(line, 0) for line in job.history]
        del job.history[:]
        for line, at in found:
            job.history.append(line)
            job.history_times.add().FromMicroseconds(at)
        return job
