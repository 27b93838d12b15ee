"""What the committer promises its callers."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tutti.chassis.errors import (
    AlreadyExists,
    CorruptRow,
    FencedOff,
    InvalidField,
    NotFound,
    Problem,
    Refused,
    StaleEpoch,
)
from tutti.checkpoints import CheckpointBody, ShardName
from tutti.checkpoints import example_test as example
from tutti.checkpoints.reader import stage
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    CHECKPOINT_STATE_QUARANTINED,
    CheckpointCommitted,
    DivergenceDetected,
    Line,
    OpenEpochRequest,
    PinCheckpointRequest,
    PruneCheckpointsRequest,
    ReportShardRequest,
    VerifyCheckpointRequest,
)
from tutti.contracts.common.v1 import GetRequest, ListRequest


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rehearsal]:
    found = Rehearsal(tmp_path)
    yield found
    found.close()


def committed(world: Rehearsal, *steps: int, dp: int = 2, epoch: int = 1, line: int = 0) -> None:
    for step in steps:
        world.snapshot(step, dp=dp, epoch=epoch, line=line)
        world.settle()
        assert world.checkpoint(step, line=line).state == CHECKPOINT_STATE_COMMITTED


def flip(world: Rehearsal, key: str, at: int = 100) -> None:
    data = bytearray(world.blobs.get(key))
    data[at] ^= 1
    world.blobs.delete(key)
    world.blobs.put_if_absent(key, bytes(data))


def body(world: Rehearsal, step: int, line: int = 0) -> CheckpointBody:
    return CheckpointBody.decode(world.blobs.get(world.checkpoint(step, line=line).manifest_key))


def test_a_snapshot_becomes_a_committed_checkpoint(world: Rehearsal, tmp_path: Path) -> None:
    start = world.open_epoch(1, 2)
    assert (start.checkpoint, start.step, start.line) == ("", 0, 0)
    committed(world, 5, 10)
    found, manifest = world.checkpoint(10), body(world, 10)
    assert (found.job, found.step, found.epoch, found.parent) == ("jobs/j", 10, 1, "checkpoints/j/0/5")
    assert found.state_digest == manifest.state_digest
    assert list(found.verified_by) == ["committer/pool"]
    assert found.bytes == manifest.nbytes
    assert [each.checkpoint for each in world.events(CheckpointCommitted)] == [
        "checkpoints/j/0/5",
        "checkpoints/j/0/10",
    ]
    assert world.api.GetLine(GetRequest(name="lines/j/0"), CALL).head == 10
    staged = stage(world.blobs, found.manifest_key, tmp_path / "staged", state_digest=found.state_digest)
    assert staged.read(0, "parameter").tobytes() == example.state(world.training, 10)[0, "parameter"]
    listed = world.api.ListCheckpoints(ListRequest(filter="job=jobs/j"), CALL).checkpoints
    assert sorted(each.step for each in listed) == [5, 10]


def test_nothing_is_visible_before_every_rank_has_reported(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.tell(*world.store(5, dp=2, epoch=1, rank=0))
    world.settle()
    with pytest.raises(NotFound):
        world.checkpoint(5)
    assert not list(world.blobs.list("committer/"))


def test_steps_are_decided_in_order(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.snapshot(10, dp=2, epoch=1)
    world.settle()
    with pytest.raises(NotFound):
        world.checkpoint(10)
    committed(world, 5)
    assert world.checkpoint(10).parent == "checkpoints/j/0/5"


def test_a_report_of_which_nobody_told_is_found_in_the_store(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.tell(*world.store(5, dp=2, epoch=1, rank=0))
    world.store(5, dp=2, epoch=1, rank=1)
    world.settle()
    world.clock.advance(31)
    world.settle()
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED


def test_the_store_is_not_searched_for_a_job_of_which_nothing_was_heard_for_an_hour(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.clock.advance(3601)
    told, _ = (world.store(5, dp=2, epoch=1, rank=rank) for rank in range(2))
    world.settle()
    world.clock.advance(31)
    world.settle()
    with pytest.raises(NotFound):
        world.checkpoint(5)
    world.tell(*told)
    world.clock.advance(31)
    world.settle()
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED


def test_a_step_whose_shard_is_damaged_is_named_on_its_line_until_the_next_epoch(world: Rehearsal) -> None:
    def line() -> Line:
        return world.api.GetLine(GetRequest(name="lines/j/0"), CALL)

    world.open_epoch(1, 2)
    committed(world, 5)
    assert line().given_up == 0
    parts = [world.store(10, dp=2, epoch=1, rank=rank) for rank in range(2)]
    flip(world, parts[0][0].shard_key)
    for part in parts:
        world.tell(*part)
    world.settle()
    assert (line().given_up, line().head) == (10, 5)
    world.open_epoch(2, 2)
    assert line().given_up == 0
    committed(world, 10, epoch=2)


def test_a_snapshot_that_will_never_be_stored_gives_its_step_up_with_the_reason(world: Rehearsal) -> None:
    def lose(rank: int, *, epoch: int = 1) -> bool:
        return world.api.ReportShard(
            ReportShardRequest(job="jobs/j", step=10, epoch=epoch, rank=rank, node="nodes/a", error="the disk tore it"),
            CALL,
        ).decided

    world.open_epoch(1, 2)
    committed(world, 5)
    stored = world.store(10, dp=2, epoch=1, rank=1)
    world.tell(*stored)
    assert lose(1) is False  # it was reported before: this is no news
    with pytest.raises(InvalidField, match="rank"):
        lose(2)
    world.settle()
    assert world.api.GetLine(GetRequest(name="lines/j/0"), CALL).given_up == 0
    assert lose(0) is lose(0) is False
    world.settle()
    line = world.api.GetLine(GetRequest(name="lines/j/0"), CALL)
    assert (line.given_up, line.head) == (10, 5)
    assert line.given_up_because == "rank 0 on nodes/a: never stored: the disk tore it"
    with pytest.raises(AlreadyExists):
        world.tell(*world.store(10, dp=2, epoch=1, rank=0))
    committed(world, 15)
    assert world.checkpoint(15).parent == "checkpoints/j/0/5"
    world.open_epoch(2, 2)
    line = world.api.GetLine(GetRequest(name="lines/j/0"), CALL)
    assert (line.given_up, line.given_up_because) == (0, "")
    with pytest.raises(StaleEpoch):
        lose(0)
    with pytest.raises(Refused, match="never opened"):
        lose(0, epoch=3)


def test_opening_an_epoch_finishes_what_the_last_one_left(world: Rehearsal) -> None:
    world.open_epoch(1, 2, nodes=2)
    world.snapshot(5, dp=2, epoch=1)
    while world.read_back("nodes/a") or world.read_back("nodes/b"):
        pass
    start = world.open_epoch(2, 2, nodes=2)
    assert (start.checkpoint, start.step) == ("checkpoints/j/0/5", 5)
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED


def test_the_same_epoch_is_answered_alike_and_a_lower_one_never(world: Rehearsal) -> None:
    first = world.open_epoch(3, 2)
    committed(world, 5, epoch=3)
    assert world.open_epoch(3, 2) == first
    with pytest.raises(AlreadyExists):
        world.open_epoch(3, 1)
    with pytest.raises(StaleEpoch):
        world.open_epoch(2, 2)
    assert world.open_epoch(4, 2).step == 5
    with pytest.raises(StaleEpoch):
        world.open_epoch(3, 2)


def test_a_stale_epoch_is_refused(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    late = world.store(5, dp=2, epoch=1, rank=0)
    world.open_epoch(2, 2)
    with pytest.raises(StaleEpoch):
        world.tell(*late)
    with pytest.raises(Refused, match="never opened"):
        world.tell(*world.store(5, dp=2, epoch=9, rank=0))


def test_a_report_is_recorded_once_and_another_under_its_name_is_refused(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    name, stored = world.store(5, dp=2, epoch=1, rank=0)
    assert world.tell(name, stored) is False
    assert world.tell(name, stored) is False
    committed(world, 5)
    assert world.tell(name, stored) is True
    world.open_epoch(2, 2)
    assert world.tell(name, stored) is True


def test_a_report_of_another_attempt_is_refused(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    with pytest.raises(Refused, match="shape"):
        world.tell(*world.store(10, dp=3, epoch=1, rank=0))
    name, stored = world.store(5, dp=2, epoch=1, rank=0)
    with pytest.raises(InvalidField, match="node"):
        world.tell(name, stored, node="nodes/b")
    world.blobs.delete(stored.report_key)
    with pytest.raises(Refused, match="not in the store"):
        world.tell(name, stored)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"job": ""}, "job"),
        ({"job": "jobs/No Such"}, "job"),
        ({"epoch": 0}, "epoch"),
        ({"training": "{}"}, "training"),
        ({"training_digest": "x"}, "training_digest"),
        ({"dataset_digest": "blake3:" + "0" * 64}, "dataset_digest"),
    ],
)
def test_a_bad_request_names_its_field(world: Rehearsal, change: dict[str, object], field: str) -> None:
    request = world.request(1, 2)
    for name, value in change.items():
        setattr(request, name, value)
    with pytest.raises(InvalidField) as refused:
        world.api.OpenEpoch(request, CALL)
    assert refused.value.field == field
    with pytest.raises(InvalidField, match="shape"):
        world.open_epoch(1, 99)
    report = ReportShardRequest(job="j", step=1, epoch=1, node="n", report_key="a/b/c", report_digest="d")
    with pytest.raises(InvalidField, match="report_key"):
        world.api.ReportShard(report, CALL)


def test_another_shape_needs_a_transition(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    committed(world, 5)
    with pytest.raises(Refused, match="transition") as refused:
        world.open_epoch(2, 3)
    assert refused.value.reason == "TRANSITION_REQUIRED"
    assert world.open_epoch(2, 3, transition="transitions/j/1").step == 5
    committed(world, 10, dp=3, epoch=2)
    assert body(world, 10).shape.dp == 3


def test_every_shape_commits_the_same_state(tmp_path: Path) -> None:
    exports = []
    for dp in (1, 2, 3):
        world = Rehearsal(tmp_path / str(dp))
        world.open_epoch(dp, dp)
        committed(world, 5, 10, dp=dp, epoch=dp)
        exports.append(world.export())
        world.close()
    assert exports[0] == exports[1] == exports[2]
    assert len(exports[0]) == 3


def test_another_training_is_refused(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.training = example.training(steps=7)
    with pytest.raises(Refused) as refused:
        world.open_epoch(2, 2)
    assert refused.value.reason == "ANOTHER_TRAINING"


def test_agents_read_back_what_others_wrote(world: Rehearsal) -> None:
    world.open_epoch(1, 2, nodes=2)
    world.snapshot(5, dp=2, epoch=1)
    world.settle()
    claim = world.claim("nodes/a")
    assert ShardName.of_report(claim.report_key).rank == 1
    assert not world.claim("nodes/a").verification
    with pytest.raises(Refused, match="another node"):
        world.answer(claim, "nodes/b")
    world.answer(claim, "nodes/a")
    world.answer(claim, "nodes/a")
    with pytest.raises(NotFound):
        world.checkpoint(5)
    assert world.read_back("nodes/b")
    world.settle()
    assert list(world.checkpoint(5).verified_by) == ["nodes/a/io", "nodes/b/io"]


def test_a_claim_that_lapsed_is_fenced_off(world: Rehearsal) -> None:
    world.open_epoch(1, 2, nodes=3)
    world.snapshot(5, dp=2, epoch=1)
    old = world.claim("nodes/c")
    world.clock.advance(61)
    again = world.claim("nodes/c")
    assert (again.verification, again.claim) == (old.verification, old.claim + 1)
    with pytest.raises(FencedOff, match="lapsed"):
        world.answer(old, "nodes/c")
    world.answer(again, "nodes/c")


def test_what_no_agent_reads_in_time_the_committer_reads(world: Rehearsal) -> None:
    world.open_epoch(1, 2, nodes=2)
    world.snapshot(5, dp=2, epoch=1)
    world.settle()
    world.clock.advance(61)
    world.settle()
    assert list(world.checkpoint(5).verified_by) == ["committer/pool"]


@pytest.mark.parametrize("nodes", [1, 2])
def test_damaged_bytes_are_never_decided(world: Rehearsal, nodes: int) -> None:
    world.open_epoch(1, 2, nodes=nodes)
    stored = [world.store(5, dp=2, epoch=1, rank=rank, node=f"nodes/{'ab'[rank]}") for rank in range(2)]
    flip(world, stored[1][0].shard_key)
    for (name, each), node in zip(stored, ("nodes/a", "nodes/b"), strict=True):
        world.tell(name, each, node=node)
    while world.read_back("nodes/a") or world.read_back("nodes/b"):
        pass
    world.settle()
    with pytest.raises(NotFound):
        world.checkpoint(5)
    (record,) = [world.blobs.get(each.key).decode() for each in world.blobs.list("committer/quarantine/")]
    assert "seen blake3:" in record
    assert "chunk" in record
    if nodes == 1:
        committed(world, 10)
        assert world.checkpoint(10).parent == ""


def test_reports_that_make_no_state_are_given_up(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.snapshot(5, dp=2, epoch=1)
    world.settle()
    before = world.export()
    name, _ = world.store(10, dp=2, epoch=1, rank=0)
    world.tell(name, world.store(10, dp=2, epoch=1, rank=0)[1])
    other = world.store(10, dp=2, epoch=1, rank=1, node="nodes/b")
    world.tell(*other, node="nodes/b")
    world.blobs.delete(name.report_key)
    world.settle()
    assert world.export() == before


def test_a_damaged_head_falls_back_on_a_new_line(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    committed(world, 5, 10, 15)
    flip(world, body(world, 15).blobs[1].key)
    flip(world, world.checkpoint(10).manifest_key)
    start = world.open_epoch(2, 2)
    assert (start.checkpoint, start.step, start.line) == ("checkpoints/j/0/5", 5, 1)
    for step in (10, 15):
        found = world.checkpoint(step)
        assert found.state == CHECKPOINT_STATE_QUARANTINED
        assert found.reason
    assert len(list(world.blobs.list("committer/quarantine/"))) == 2
    committed(world, 10, epoch=2, line=1)
    assert world.checkpoint(10, line=1).parent == "checkpoints/j/0/5"
    line = world.api.GetLine(GetRequest(name="lines/j/1"), CALL)
    assert (line.parent_line, line.from_step, line.head) == (0, 5, 10)
    assert world.api.GetLine(GetRequest(name="lines/j/0"), CALL).sealed
    assert world.open_epoch(3, 2).checkpoint == "checkpoints/j/1/10"


def test_a_rewind_starts_a_new_line(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    committed(world, 5, 10)
    with pytest.raises(Refused, match=r"committed are \[5, 10\]"):
        world.open_epoch(2, 2, rewind_to=7)
    start = world.open_epoch(2, 2, rewind_to=5)
    assert (start.checkpoint, start.line) == ("checkpoints/j/0/5", 1)
    assert world.open_epoch(2, 2, rewind_to=5) == start
    committed(world, 10, epoch=2, line=1)
    assert world.checkpoint(10).state == world.checkpoint(10, line=1).state == CHECKPOINT_STATE_COMMITTED
    assert world.open_epoch(3, 2).checkpoint == "checkpoints/j/1/10"
    start = world.open_epoch(4, 2, rewind_to=5)
    assert (start.checkpoint, start.line) == ("checkpoints/j/0/5", 2)
    assert world.open_epoch(5, 2, rewind_to=0).checkpoint == ""


def test_two_epochs_with_different_states_diverge_loudly(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    zombies = [world.store(5, dp=2, epoch=1, rank=rank, seed=7) for rank in range(2)]
    world.open_epoch(2, 2)
    committed(world, 5, epoch=2)
    decided = world.checkpoint(5)
    for zombie in zombies:
        with pytest.raises(StaleEpoch):
            world.tell(*zombie)
    (fact,) = world.events(DivergenceDetected)
    assert (fact.checkpoint, fact.decided_epoch, fact.epoch) == ("checkpoints/j/0/5", 2, 1)
    assert fact.decided_digest == decided.state_digest != fact.state_digest
    after = world.checkpoint(5)
    assert (after.state, after.state_digest) == (CHECKPOINT_STATE_COMMITTED, decided.state_digest)
    for zombie in zombies:
        with pytest.raises(StaleEpoch):
            world.tell(*zombie)
    assert len(world.events(DivergenceDetected)) == 1


def test_late_shards_of_a_finished_job_are_compared_by_the_next_committer(tmp_path: Path) -> None:
    training = example.training(steps=5)
    world = Rehearsal(tmp_path, training=training)
    world.open_epoch(1, 2)
    zombies = [world.store(5, dp=2, epoch=1, rank=rank, seed=7) for rank in range(2)]
    world.open_epoch(2, 2)
    committed(world, 5, epoch=2)
    for zombie in zombies:
        with pytest.raises(StaleEpoch):
            world.tell(*zombie)
    world.close()
    again = Rehearsal(tmp_path, training=training, life=1)
    assert len(again.events(DivergenceDetected)) == 1
    again.close()


def test_an_equal_state_of_another_epoch_is_no_divergence(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    zombies = [world.store(5, dp=2, epoch=1, rank=rank) for rank in range(2)]
    world.open_epoch(2, 2)
    committed(world, 5, epoch=2)
    for zombie in zombies:
        with pytest.raises(StaleEpoch):
            world.tell(*zombie)
    assert not world.events(DivergenceDetected)
    assert not world.checkpoint(5).reason


def test_verify_reads_every_byte_and_quarantines_what_is_damaged(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    committed(world, 5)
    request = VerifyCheckpointRequest(name="checkpoints/j/0/5")
    good = world.api.VerifyCheckpoint(request, CALL)
    assert (good.ok, good.bytes, list(good.problems)) == (True, body(world, 5).nbytes, [])
    key = body(world, 5).blobs[0].key
    flip(world, key)
    for _ in range(2):
        bad = world.api.VerifyCheckpoint(request, CALL)
        assert not bad.ok
        assert key in bad.problems[0]
        assert bad.checkpoint.state == CHECKPOINT_STATE_QUARANTINED
    assert len(list(world.blobs.list("committer/quarantine/"))) == 1
    with pytest.raises(NotFound):
        world.api.VerifyCheckpoint(VerifyCheckpointRequest(name="checkpoints/j/0/99"), CALL)


def test_retention_keeps_what_is_needed_and_removes_the_rest(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    committed(world, 5, 10, 15, 20)
    world.api.PinCheckpoint(PinCheckpointRequest(name="checkpoints/j/0/5", pinned=True), CALL)
    shards = {step: [blob.key for blob in body(world, step).blobs] for step in (5, 10, 15, 20)}
    request = PruneCheckpointsRequest(job="jobs/j", keep_last=1, validate_only=True)
    dry = world.api.PruneCheckpoints(request, CALL)
    assert list(dry.checkpoints) == ["checkpoints/j/0/10", "checkpoints/j/0/15"]
    assert world.checkpoint(10).state == CHECKPOINT_STATE_COMMITTED
    request.validate_only = False
    assert world.api.PruneCheckpoints(request, CALL) == dry
    world.settle()
    assert world.checkpoint(10).state == CHECKPOINT_STATE_PRUNED
    keys = {each.key for each in world.blobs.list("committer/manifests/")}
    assert keys == {world.checkpoint(step).manifest_key for step in (5, 20)}
    assert set(shards[10]) <= {each.key for each in world.blobs.list("trainer/shards/")}
    world.clock.advance(700)
    world.settle()
    left = {each.key for each in world.blobs.list("trainer/shards/")}
    assert left == {*shards[5], *shards[20]}
    assert not list(world.api.PruneCheckpoints(request, CALL).checkpoints)
    with pytest.raises(InvalidField, match="keep_last"):
        world.api.PruneCheckpoints(PruneCheckpointsRequest(job="jobs/j"), CALL)
    with pytest.raises(Refused, match="not committed"):
        world.api.PinCheckpoint(PinCheckpointRequest(name="checkpoints/j/0/10", pinned=True), CALL)
    world.api.PinCheckpoint(PinCheckpointRequest(name="checkpoints/j/0/5", pinned=False), CALL)
    assert list(world.api.PruneCheckpoints(request, CALL).checkpoints) == ["checkpoints/j/0/5"]


@pytest.mark.parametrize(
    ("table", "column"),
    [("decisions", "manifest"), ("epochs", "training"), ("epochs", "base"), ("checkpoints", "body")],
)
def test_a_flipped_byte_of_a_row_that_decides_is_found(tmp_path: Path, table: str, column: str) -> None:
    world = Rehearsal(tmp_path)
    world.open_epoch(1, 2)
    committed(world, 5)
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
