"""Remaking: results with damaged blobs are made again by the work that made them.

Promises: only bytes that differ from their digest are replaced, by bytes that have it. A result of which blobs are
missing is left alone: somebody may have deleted them, and making it again would bring them back.
"""

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import replace

from sqlalchemy import select

from tutti.backbone import Blobs, Isolation
from tutti.backbone.blobs import BlobMissing
from tutti.chassis.service import Remakes
from tutti.chassis.store.taskrows import TaskState
from tutti.chassis.store.unit import Unit, Units
from tutti.upkeep.scrub import BLOBS, digest_in, is_manifest, wrong
from tutti.upkeep.scrubs import Damage, Looked, Scrub

ROUNDS = 2
"""A result may be made of another one that is damaged too."""
LOOK_SECONDS = 0.5
LIMIT_SECONDS = 6 * 3600.0
AGAIN = "run its recipe again; `tutti checkpoints verify` marks a checkpoint, so that the one before it is used"
_ENDED = (TaskState.DONE.value, TaskState.FAILED.value, TaskState.CANCELLED.value)


def remade(units: Units, blobs: Blobs, works: Sequence[Remakes], scrub: Scrub) -> Iterator[Looked]:
    """Make the results again whose blobs a scrub found damaged; at the end, the damages that are left and what to do.

    Raises BlobsUnavailable, CorruptRow.
    """
    others = tuple(each for each in scrub.damaged if each.phase != BLOBS)
    damaged = [each for each in scrub.damaged if each.phase == BLOBS and not each.missing]
    missing = [each for each in scrub.damaged if each.missing]
    manifests = yield from _manifests(units, blobs, damaged, missing)
    repaired: list[str] = []
    reason = ""
    for number in range(ROUNDS):
        cause = f"scrub/{scrub.began_at}/{number}"
        tasks = _enqueued(units, works, manifests, cause) if damaged else []
        if not tasks:
            break
        reason = yield from _awaited(units, tasks)
        left: list[Damage] = []
        for each in damaged:
            if (yield from _is_whole(blobs, each)):
                repaired.append(f"{each.what}: its bytes were damaged, and were made again")
            else:
                left.append(each)
        if len(left) in (0, len(damaged)):
            damaged = left
            break
        damaged = left
    advice = f"it could not be made again: {reason}; {AGAIN}" if reason else AGAIN
    told = [replace(each, message=f"{each.message}; {advice}") for each in damaged]
    told += [replace(each, message=f"{each.message}; if nobody deleted it, {AGAIN}") for each in missing]
    yield Looked(instead=(*others, *told), repaired=tuple(repaired))


def _manifests(
    units: Units, blobs: Blobs, damaged: Sequence[Damage], missing: Sequence[Damage]
) -> Generator[Looked, None, set[str]]:
    """The manifests of the service that name damaged blobs, or are damaged, and name none that is missing."""
    found = set[str]()
    keys, marks = {each.what for each in damaged}, [_mark(each) for each in damaged if not is_manifest(each.what)]
    for stat in blobs.list(f"{units.service}/") if damaged else ():
        if not is_manifest(stat.key):
            continue
        text = blobs.get(stat.key).decode(errors="replace")
        yield Looked(read=stat.size)
        if any(_mark(each) in text for each in missing):
            continue
        if stat.key in keys or any(mark in text for mark in marks):
            found.add(stat.key)
    return found


def _mark(damage: Damage) -> str:
    """The text by which a manifest names a blob: the digest in its key, or else the key."""
    return digest_in(damage.what) or damage.what


def _enqueued(units: Units, works: Sequence[Remakes], manifests: Collection[str], cause: str) -> list[str]:
    def enqueue(unit: Unit) -> list[str]:
        return [task for work in works for task in work.make_again(unit, manifests, cause)]

    return units.run(enqueue)


def _awaited(units: Units, tasks: Sequence[str]) -> Generator[Looked, None, str]:
    """Wait for tasks; the reason of one that failed, or that none did."""
    deadline = units.clock.monotonic() + LIMIT_SECONDS
    table = units.tables.tasks

    def read(unit: Unit) -> list[tuple[str, str]]:
        rows = unit.tx.execute(select(table.c.state, table.c.reason).where(table.c.id.in_(tasks))).all()
        return [(str(row.state), str(row.reason)) for row in rows]

    while True:
        found = units.run(read, isolation=Isolation.READ_COMMITTED)
        if all(state in _ENDED for state, _ in found):
            reasons = [reason for state, reason in found if state != TaskState.DONE.value and reason]
            return reasons[0] if reasons else "its stage gave other bytes"
        if units.clock.monotonic() > deadline:
            return f"its work has not ended after {LIMIT_SECONDS / 3600:.0f} h"
        yield Looked(pause=LOOK_SECONDS)


def _is_whole(blobs: Blobs, damage: Damage) -> Generator[Looked, None, bool]:
    try:
        message, _ = yield from wrong(blobs, damage.what, damage.expected)
    except BlobMissing:
        return False
    return not message
