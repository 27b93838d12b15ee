"""What the scheduler hears: checkpoints of its jobs.

Promises: an older checkpoint changes nothing, so order and repetition do not matter.
"""

from collections.abc import Callable, Sequence

from tutti.chassis.events.event import Event
from tutti.chassis.service import Consumed
from tutti.chassis.store.unit import Unit
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint, CheckpointCommitted
from tutti.scheduler.driver import of_checkpoint
from tutti.scheduler.jobs import Committed

Observe = Callable[[Unit, str, Committed], None]


def consumed(observe: Observe) -> list[Consumed]:
    """The fact tells soon, the state tells loss and bits per byte as well; either may come first."""

    def on_committed(unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            fact: CheckpointCommitted = event.message
            observe(unit, fact.job, Committed(fact.line, fact.step, fact.model_digest, fact.state_digest))

    def on_checkpoint(unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            checkpoint: Checkpoint = event.message
            if checkpoint.state == CHECKPOINT_STATE_COMMITTED:
                observe(unit, checkpoint.job, of_checkpoint(checkpoint))

    return [Consumed(CheckpointCommitted, on_committed), Consumed(Checkpoint, on_checkpoint)]
