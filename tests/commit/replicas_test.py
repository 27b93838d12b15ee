"""Replicas of the committer on one Postgres: whoever comes first decides, once."""

import threading
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import select

from tutti.backbone import ManualClock
from tutti.backbone.connect import open_database
from tutti.chassis.errors import Problem, StaleEpoch
from tutti.chassis.store.unit import Unit
from tutti.committer.rehearsal_test import STEPS, Rehearsal
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_QUARANTINED,
    Checkpoint,
    OpenEpochResponse,
)

UNTIL = 20


def together(*works: Callable[[], object]) -> list[BaseException]:
    """Run all at once; what they raised."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return failures


def announced(unit: Unit) -> int:
    """Return how many events say that a checkpoint is committed."""
    outbox = unit.tables.outbox
    rows = select(outbox.c.payload).where(outbox.c.type == Checkpoint.DESCRIPTOR.full_name)
    told = [Checkpoint.FromString(bytes(row.payload)) for row in unit.tx.execute(rows).all()]
    return sum(each.state == CHECKPOINT_STATE_COMMITTED for each in told)


def test_two_replicas_decide_every_step_once(tmp_path: Path, postgres_url: str, unique: str) -> None:
    clock, worlds = ManualClock(), list[Rehearsal]()
    for life in range(2):
        database = open_database(postgres_url, unique)
        worlds.append(
            Rehearsal(tmp_path / str(life), clock=clock, life=life, database=database, store=tmp_path / "blobs")
        )
    one, other = worlds
    try:
        assert not together(lambda: one.open_epoch(1, 2), lambda: other.open_epoch(1, 2))
        for step in range(5, UNTIL + 1, 5):
            stored = [one.store(step, dp=2, epoch=1, rank=rank) for rank in range(2)]
            reports = [lambda to=to, each=each: to.tell(*each) for to in worlds for each in stored]
            assert not together(*reports)
            assert not together(one.settle, other.settle)
            for world in (one, other, one):  # either may lead, and the other hands it the names that it is woken for
                world.settle()
            assert other.checkpoint(step).state == CHECKPOINT_STATE_COMMITTED
        assert one.host.units.run(announced) == UNTIL // 5
        assert STEPS > UNTIL
        late = one.store(25, dp=2, epoch=1, rank=0)
        failures = together(lambda: one.open_epoch(2, 2), lambda: other.open_epoch(3, 2), lambda: other.tell(*late))
        assert all(isinstance(failure, Problem) for failure in failures)
        assert other.open_epoch(3, 2).step == UNTIL
        one.flip(one.manifest(UNTIL).blobs[0].key)
        answers: list[OpenEpochResponse] = []
        assert not together(*(lambda each=each: answers.append(each.open_epoch(4, 2)) for each in worlds))
        assert answers[0] == answers[1]
        assert (answers[0].step, answers[0].line) == (UNTIL - 5, 1)
        assert other.checkpoint(UNTIL).state == CHECKPOINT_STATE_QUARANTINED
        assert len(list(one.blobs.list("committer/quarantine/"))) == 1
        for stale in (lambda: one.open_epoch(2, 2), lambda: one.tell(*late)):
            (failure,) = together(stale)
            assert isinstance(failure, StaleEpoch)
    finally:
        for world in worlds:
            world.close()
