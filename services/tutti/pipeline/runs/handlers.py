"""Event handlers of the pipeline: the states of its stages' resources.

Promises: an event only wakes the run that waits for it; what is true is asked of the owner.
"""

from collections.abc import Callable, Sequence
from functools import partial

from tutti.chassis.events.event import Event
from tutti.chassis.service import Consumed
from tutti.chassis.store.unit import Unit
from tutti.pipeline.definitions.definition import StageDef
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.runs import transitions
from tutti.pipeline.runs.tables import Tables


def consumed(tables: Tables, wake: Callable[[str], None]) -> list[Consumed]:
    def on_work(stage: StageDef, unit: Unit, events: Sequence[Event]) -> None:
        newest = {seen.resource: seen for seen in (stage.seen(event.message) for event in events)}
        for run in tables.open_runs(unit):
            now = transitions.current(run)
            found = newest.get(now.resource) if now is not None else None
            # A job tells of every second of progress; a run waits for less.
            if now is not None and found and (found.state in transitions.ENDED or found.reason != now.reason):
                unit.on_commit(partial(wake, run.name))

    # Several kinds of stages may create the same kind of work, which is heard once.
    works = {stage.work: stage for stage in definitions().values()}
    return [Consumed(work, partial(on_work, stage)) for work, stage in works.items()]
