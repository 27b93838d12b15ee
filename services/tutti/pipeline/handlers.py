"""What the pipeline hears: the states of its stages' resources.

Promises: an event only wakes the run that waits for it; what is true is asked of the owner.
"""

from collections.abc import Callable, Sequence

from tutti.chassis.event import Event
from tutti.chassis.service import Consumed
from tutti.chassis.unit import Unit
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.ingest.v1 import Crawl, Filter, Ingest
from tutti.contracts.sampling.v1 import Sample
from tutti.contracts.scheduler.v1 import Job
from tutti.contracts.tokenization.v1 import Index, Tokenization
from tutti.pipeline import saga
from tutti.pipeline.owners import Seen, seen_job, seen_work
from tutti.pipeline.tables import Tables


def consumed(tables: Tables, wake: Callable[[str], None]) -> list[Consumed]:
    def hear(unit: Unit, seen: Sequence[Seen]) -> None:
        newest = {each.resource: each for each in seen}
        for run in tables.open_runs(unit):
            stage = saga.current(run)
            found = newest.get(stage.resource) if stage is not None else None
            # A job tells of every second of progress; a run waits for less.
            if stage is not None and found and (found.state in saga.ENDED or found.reason != stage.reason):
                unit.on_commit(lambda name=run.name: wake(name))  # type: ignore[misc]

    def on_work(unit: Unit, events: Sequence[Event]) -> None:
        hear(unit, [seen_work(event.message) for event in events])

    def on_job(unit: Unit, events: Sequence[Event]) -> None:
        hear(unit, [seen_job(event.message) for event in events])

    return [
        *(Consumed(message, on_work) for message in (Crawl, Ingest, Filter, Dedup, Tokenization, Index, Sample)),
        Consumed(Job, on_job),
    ]
