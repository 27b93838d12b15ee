"""The committer's word over its own rows and bytes: verified, or refused with a reason."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tutti.chassis.errors import CorruptRow, InvalidField, NotFound, Problem
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_QUARANTINED, OpenEpochRequest, VerifyCheckpointRequest


def test_verify_reads_every_byte_and_quarantines_what_is_damaged(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5)
    request = VerifyCheckpointRequest(name="checkpoints/j/0/5")
    good = world.api.VerifyCheckpoint(request, CALL)
    assert (good.ok, good.bytes, list(good.problems)) == (True, world.manifest(5).nbytes, [])
    key = world.manifest(5).blobs[0].key
    world.flip(key)
    for _ in range(2):
        bad = world.api.VerifyCheckpoint(request, CALL)
        assert not bad.ok
        assert key in bad.problems[0]
        assert bad.checkpoint.state == CHECKPOINT_STATE_QUARANTINED
    assert len(list(world.blobs.list("committer/quarantine/"))) == 1
    with pytest.raises(NotFound):
        world.api.VerifyCheckpoint(VerifyCheckpointRequest(name="checkpoints/j/0/99"), CALL)


@pytest.mark.parametrize(
    ("table", "column"),
    [("decisions", "manifest"), ("epochs", "training"), ("epochs", "base"), ("checkpoints", "body")],
)
def test_a_flipped_byte_of_a_row_that_decides_is_found(tmp_path: Path, table: str, column: str) -> None:
    world = Rehearsal(tmp_path)
    world.open_epoch(1, 2)
    world.commit(5)
    world.close()
    with closing(sqlite3.connect(tmp_path / "committer.db", isolation_level=None)) as connection:
        (value,) = connection.execute(f"SELECT {column} FROM {table}").fetchone()  # noqa: S608
        if isinstance(value, bytes):
            value = bytes([*value[:40], value[40] ^ 1, *value[41:]])
        else:
            value = value + 5 if isinstance(value, int) else value.replace("4", "5", 1)
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))  # noqa: S608
        connection.execute("UPDATE decisions SET published = 0")
    again = Rehearsal(tmp_path, life=1)
    try:
        with pytest.raises(CorruptRow, match="digest"):
            again.open_epoch(2, 2)
    finally:
        again.close()


def test_every_refusal_is_a_problem_with_a_reason(world: Rehearsal) -> None:
    with pytest.raises(Problem) as refused:
        world.tell(*world.store(5, dp=2, epoch=1, rank=0))
    assert refused.value.reason == "NOT_FOUND"
    with pytest.raises(InvalidField):
        world.api.OpenEpoch(OpenEpochRequest(), CALL)
