"""What the scheduler hears: checkpoints of its jobs.

Promises: an older checkpoint changes nothing, so order and repetition do not matter.
"""

from collections.abc import Callable, Sequence

from tutti.chassis.events.event import Event
from tutti.chassis.service import Consumed
from tutti.chassis.store.unit import Unit
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint
from tutti.scheduler.driver import of_checkpoint
from tutti.scheduler.jobs import Committed

Observe = Callable[[Unit, str, Committed], None]


def consumed(observe: Observe) -> list[Consumed]:
    """Return what is consumed; `observe` is told of each committed checkpoint, with its job."""

    def on_checkpoint(unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            checkpoint: Checkpoint = event.message
            if checkpoint.state == CHECKPOINT_STATE_COMMITTED:
                observe(unit, checkpoint.job, of_checkpoint(checkpoint))

    return [Consumed(Checkpoint, on_checkpoint)]
