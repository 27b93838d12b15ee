"""Garbage: what goes with a sealed epoch, what stays, and when."""

from datetime import UTC, timedelta
from pathlib import Path

import pytest

from tutti.chassis.errors import StaleEpoch
from tutti.checkpoints.keys import ShardName
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, CollectGarbageRequest, Garbage

GRACE = 600


def attempts(world: Rehearsal, *, kind: str = "shards") -> set[tuple[int, int, int]]:
    """(step, epoch, rank) of what the store holds."""
    name_of = ShardName.of_shard if kind == "shards" else ShardName.of_report
    names = [name_of(stat.key) for stat in world.blobs.list(f"trainer/{kind}/")]
    return {(name.step, name.epoch, name.rank) for name in names}


def collect(world: Rehearsal, *, validate_only: bool = False) -> list[Garbage]:
    request = CollectGarbageRequest(job="jobs/j", validate_only=validate_only)
    return list(world.api.CollectGarbage(request, CALL).garbage)


def test_what_a_sealed_epoch_left_undecided_goes_after_the_grace(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.commit(5)
    world.tell(*world.store(10, dp=2, epoch=1, rank=0))
    world.store(15, dp=2, epoch=1, rank=1)
    decided, left = {(5, 1, 0), (5, 1, 1)}, {(10, 1, 0), (15, 1, 1)}
    world.clock.advance(2 * GRACE)
    world.settle()
    assert attempts(world) == decided | left  # the epoch is open: these may still become checkpoints
    world.open_epoch(2, 2)
    written = {name for name, _ in [world.store(10, dp=2, epoch=2, rank=rank) for rank in range(2)]}
    new = {(name.step, name.epoch, name.rank) for name in written}
    world.clock.advance(GRACE - 1)
    world.settle()
    assert attempts(world) == decided | left | new
    world.clock.advance(31)
    world.settle()
    for kind in ("shards", "reports"):
        assert attempts(world, kind=kind) == decided | new
    assert world.checkpoint(10).state == CHECKPOINT_STATE_COMMITTED  # of the open epoch, found in the store
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED


def test_what_a_rank_of_a_sealed_epoch_stores_late_goes_too(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.open_epoch(2, 2)
    world.clock.advance(2 * GRACE)
    world.settle()
    late = world.store(5, dp=2, epoch=1, rank=0)
    with pytest.raises(StaleEpoch):
        world.tell(*late)
    world.settle()
    assert attempts(world) == {(5, 1, 0)}
    world.clock.advance(GRACE + 31)
    world.settle()
    assert attempts(world) == set()


def test_late_shards_stay_until_they_have_been_compared(world: Rehearsal) -> None:
    world.open_epoch(1, 1)
    world.open_epoch(2, 1)
    world.commit(5, dp=1, epoch=2)
    world.clock.advance(2 * GRACE)
    world.settle()
    other = world.store(5, dp=1, epoch=1, rank=0, seed=7)
    with pytest.raises(StaleEpoch):
        world.tell(*other)
    assert collect(world) == []
    world.settle()
    assert "another state" in world.checkpoint(5).reason
    world.clock.advance(GRACE + 31)
    world.settle()
    assert attempts(world) == {(5, 2, 0)}


def test_what_can_go_is_told_before_it_goes(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    _, stored = world.store(5, dp=2, epoch=1, rank=0)
    world.open_epoch(2, 2)
    (found,) = collect(world, validate_only=True)
    nbytes = sum(stat.size for stat in world.blobs.list("trainer/"))
    assert (found.job, found.blobs, found.bytes) == ("jobs/j", 2, nbytes)
    assert set(found.keys) == {stat.key for stat in world.blobs.list("trainer/")}
    assert stored.report_key in found.keys
    assert found.due_at.ToDatetime(UTC) == world.clock.now() + timedelta(seconds=GRACE)
    assert collect(world) == [found]
    assert attempts(world) == {(5, 1, 0)}  # the grace is not over
    world.clock.advance(GRACE)
    assert not collect(world, validate_only=True)[0].HasField("due_at")
    assert attempts(world) == {(5, 1, 0)}
    assert collect(world)[0].blobs == 2
    assert attempts(world) == set()
    assert collect(world) == []


def test_what_a_manifest_in_the_store_names_stays_although_its_decision_was_lost(
    world: Rehearsal, tmp_path: Path
) -> None:
    world.open_epoch(1, 2)
    world.commit(5)
    restored = Rehearsal(tmp_path / "restored", store=tmp_path / "blobs", clock=world.clock, life=1)
    try:
        restored.open_epoch(2, 2)
        restored.open_epoch(3, 2)
        restored.clock.advance(2 * GRACE)
        restored.settle()
        assert attempts(restored) == {(5, 1, 0), (5, 1, 1)}
    finally:
        restored.close()


def test_another_job_of_a_longer_name_is_left_alone(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.open_epoch(2, 2)
    other = ShardName("j.0", 0, 5, 1, 0)
    world.blobs.put_if_absent(other.shard_key, b"bytes")
    world.clock.advance(2 * GRACE)
    world.settle()
    assert [stat.key for stat in world.blobs.list("trainer/shards/")] == [other.shard_key]
