"""Records that differ from the digest in their header are found in every event log, until a later one replaces them."""

from typing import Any

import pytest

from tutti.backbone import EventLog, Kind, NewRecord, Topic
from tutti.chassis.events.event import DIGEST, digest_of
from tutti.upkeep import readback
from tutti.upkeep.scrubs import Scrub


@pytest.fixture
def log(log_place: Any) -> EventLog:
    found: EventLog = log_place.log
    return found


def record(topic: Topic, number: int, *, damaged: bool = False, stated: bool = True) -> NewRecord:
    """The `number`-th event of `things/a`; a damaged one has another payload than its digest says."""
    headers = {"ce_id": f"id-{number}", "ce_subject": "things/a", "revision": str(number)}
    payload = f"payload {number}".encode()
    digest = {DIGEST: digest_of(headers, payload)} if stated else {}
    return NewRecord(topic.name, "things/a", b"other" if damaged else payload, headers | digest)


def scrubbed(log: EventLog, topic: Topic, *, sends: bool | None = None) -> tuple[Scrub, list[str]]:
    """A scrub of a topic, and the events that it asked its owner to publish again, who answers `sends`."""
    asked: list[str] = []

    def send_again(event_id: str) -> bool:
        asked.append(event_id)
        return bool(sends)

    found = Scrub(began_at=1, rate=0)
    for looked in readback.look(log, [topic], None if sends is None else send_again):
        found = found.with_look(looked)
    return found, asked


@pytest.mark.parametrize("kind", Kind)
def test_a_damaged_record_is_found_and_published_again_where_its_owner_can(
    log: EventLog, unique: str, kind: Kind
) -> None:
    topic = Topic(f"{unique}.{kind.value}", kind, 2)
    log.ensure([topic])
    log.append([record(topic, 1), record(topic, 2, damaged=True)])
    found, _ = scrubbed(log, topic)
    assert (found.records, found.unstated, len(found.damaged)) == (2, 0, 1)
    assert "things/a: it does not have the digest in its header" in found.damaged[0].message
    found, asked = scrubbed(log, topic, sends=False)
    assert (asked, "no longer in the outbox" in found.damaged[0].message) == (["id-2"], True)
    found, asked = scrubbed(log, topic, sends=True)
    assert (asked, found.damaged, len(found.repaired)) == (["id-2"], (), 1)
    log.append([record(topic, 2)])
    found, asked = scrubbed(log, topic, sends=True)
    assert (asked, found.damaged, found.repaired, found.records) == ([], (), (), 3)


def test_a_record_of_an_earlier_version_has_no_digest(log: EventLog, unique: str) -> None:
    topic = Topic(f"{unique}.facts", Kind.FACT, 1)
    log.ensure([topic])
    log.append([record(topic, 1, stated=False)])
    found, _ = scrubbed(log, topic)
    assert (found.records, found.unstated, found.damaged) == (1, 1, ())
