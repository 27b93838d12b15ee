"""The consumer: one member of a service's group on the event log.

Promises: offsets are committed after the database, under the generation of their poll; what a transaction did not
handle is read again; a dead letter can be replayed or discarded, and then what was parked behind it goes on in order.
"""

import contextlib
import logging
from collections.abc import Sequence

from tutti.backbone import EventLog, Isolation, Record, TopicPartition
from tutti.backbone.eventlog import EventLogError, StaleGeneration, Subscription
from tutti.chassis.delivery.deadletters import DeadLetter
from tutti.chassis.delivery.handling import MAX_BATCH, Handling
from tutti.chassis.delivery.inbox import Inbox
from tutti.chassis.errors import NotFound, Refused
from tutti.chassis.service import Consumed
from tutti.chassis.store.unit import Units

_log = logging.getLogger(__name__)


class Consumer:
    """A Loop that waits in its own step. `group` is the service's name, with a suffix of its own for a rebuild."""

    patient = True

    def __init__(
        self,
        units: Units,
        log: EventLog,
        consumes: Sequence[Consumed],
        *,
        group: str,
        inbox: Inbox | None = None,
        poll_seconds: float = 0.5,
        max_records: int = 500,
    ) -> None:
        self.name, self.interval, self.group = f"{group} consumer", 0.0, group
        self._units, self._log = units, log
        self._poll_seconds, self._max_records = poll_seconds, max_records
        self.handling = Handling(consumes, group=group, inbox=inbox or Inbox(group), clock=units.clock)
        self._subscription: Subscription | None = None
        self._uncommitted: dict[TopicPartition, int] = {}

    def step(self) -> bool:
        if self._subscription is None:
            self._subscription = self._log.subscribe(self.group, self.handling.topics, on_revoked=self._revoked)
        subscription = self._subscription
        records = subscription.poll(self._poll_seconds, self._max_records)
        generation = subscription.generation
        try:
            self._apply(records, subscription)
        finally:
            if self._uncommitted:
                self._commit(subscription, generation)
        return bool(records)

    def close(self) -> None:
        """Leave the group; what was not committed is delivered to others."""
        subscription, self._subscription = self._subscription, None
        self._uncommitted = {}
        if subscription is not None:
            subscription.close()

    def dead_letters(self) -> list[DeadLetter]:
        return self._units.run(self.handling.letters.dead, isolation=Isolation.READ_COMMITTED)

    def settle(self, id: str, *, discard: bool) -> int:
        """Replay or discard a dead letter; how many events that were parked behind it went on.

        Raises NotFound, and Refused when the event died again.
        """
        letter = self._units.run(lambda unit: self.handling.letters.find(unit, id), isolation=Isolation.READ_COMMITTED)
        if letter is None:
            raise NotFound(f"dead letter {id} of {self.group}")
        subject, settled = letter.subject, 0
        while True:
            done, died = self._units.run(
                lambda unit: self.handling.settle(unit, subject, id if discard else None),
                isolation=Isolation.READ_COMMITTED,
            )
            settled += done
            if died is not None and died.id == id:
                raise Refused("STILL_POISON", f"the event {id} of {subject} died again; its dead letter says why")
            if died is not None or done == 0:
                return max(settled - 1, 0)

    def _apply(self, records: Sequence[Record], subscription: Subscription) -> None:
        done = 0
        try:
            while done < len(records):
                some = records[done : done + MAX_BATCH]
                handled = self._units.run(
                    lambda unit, some=some: self.handling.apply(unit, some),  # type: ignore[misc]
                    isolation=Isolation.READ_COMMITTED,
                )
                for record in some[:handled]:
                    self._uncommitted[record.at] = record.offset + 1
                done += handled
        except BaseException:
            self._go_back(records[done:], subscription)
            raise

    def _commit(self, subscription: Subscription, generation: int) -> None:
        try:
            subscription.commit(self._uncommitted, generation)
        except StaleGeneration as error:
            _log.info("%s: %s; the inbox skips events that were handled", self.name, error)
        except EventLogError as error:
            _log.warning("%s: offsets are committed later: %s", self.name, error)
            return
        self._uncommitted = {}

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for at in partitions:
            self._uncommitted.pop(at, None)

    def _go_back(self, records: Sequence[Record], subscription: Subscription) -> None:
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(record.at, record.offset)
        for at, offset in first.items():
            with contextlib.suppress(EventLogError):
                subscription.seek(at, offset)
