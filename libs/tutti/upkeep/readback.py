"""The records of a scrub: what a service published is read back from the event log and compared with its digest.

Promises: a damaged record that a later one has replaced, by the same event or by a newer snapshot of its resource, is
none; the log is read outside of any group, so nothing is delivered by it.
"""

from collections.abc import Callable, Iterator, Sequence

from tutti.backbone import EventLog, Kind, Topic
from tutti.backbone.eventlog import LogUnavailable, Record, TopicPartition
from tutti.chassis.events.event import DIGEST, digest_of
from tutti.upkeep.scrubs import Damage, Looked

RECORDS = "records"
MANY = 500


def look(
    log: EventLog, topics: Sequence[Topic], send_again: Callable[[str], bool] | None, after: str = ""
) -> Iterator[Looked]:
    """Read all records of these topics. `send_again` publishes an event with this id again where that is possible.

    `after` is the place where an earlier scrub was. Raises LogUnavailable.
    """
    for topic in sorted(topics, key=lambda each: each.name):
        for partition in range(topic.partitions):
            place = f"{topic.name} {partition:05}"
            if place > after:
                yield from _partition(log, topic, TopicPartition(topic.name, partition), send_again)
                yield Looked(after=place)


def _partition(
    log: EventLog, topic: Topic, at: TopicPartition, send_again: Callable[[str], bool] | None
) -> Iterator[Looked]:
    damaged: dict[str, Record] = {}
    offset, end, alone, failing = 0, log.end_offsets(topic.name)[at], 0, False
    while offset < end:
        many = 1 if offset < alone else MANY
        try:
            records = log.read(at, offset, many)
        except LogUnavailable:
            raise
        except Exception as error:  # a record cannot be taken apart: find out which
            if many > 1:
                alone = offset + MANY
                continue
            line = f"{_place(at, offset)}, or the one behind it, cannot be read: {error}"
            yield Looked() if failing else Looked(records=1, damages=(Damage(RECORDS, "", line),))
            offset, failing = offset + 1, True
            continue
        failing = False
        if not records:
            break
        unstated = 0
        for record in records:
            stated, subject = record.headers.get(DIGEST), record.headers.get("ce_subject", "")
            key = subject if topic.kind is Kind.STATE else record.headers.get("ce_id", "")
            if stated is None:
                unstated += 1
            elif stated == digest_of(record.headers, record.value) and record.key == subject:
                damaged.pop(key, None)
            else:
                damaged[key] = record
        offset = records[-1].offset + 1
        yield Looked(read=sum(len(each.value) for each in records), records=len(records), unstated=unstated)
    for record in damaged.values():
        yield _damaged(record, send_again)


def _damaged(record: Record, send_again: Callable[[str], bool] | None) -> Looked:
    id = record.headers.get("ce_id", "")
    line = f"{_place(record.at, record.offset)} about {record.key}: it does not have the digest in its header"
    if send_again is None:
        return Looked(damages=(Damage(RECORDS, id, line),))
    if id and send_again(id):
        return Looked(repaired=(f"{line}; its event is published again",))
    why = "its event is no longer in the outbox; the record goes when its retention ends"
    return Looked(damages=(Damage(RECORDS, id, f"{line}; {why}"),))


def _place(at: TopicPartition, offset: int) -> str:
    return f"the record {offset} of {at.topic}/{at.partition}"
