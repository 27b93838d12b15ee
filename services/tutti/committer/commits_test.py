"""Commits: what is decided, in which order, what never is, and what sealed epochs still tell."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from tutti.chassis.errors import NotFound, StaleEpoch
from tutti.checkpoints import example_test as example
from tutti.checkpoints.reader import stage
from tutti.committer.decision import ShardState
from tutti.committer.rehearsal_test import CALL, STEPS, Rehearsal
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint, DivergenceDetected, Line
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.model.programs.grpo import GrpoParameters

NODES = ("nodes/a", "nodes/b")


def test_a_snapshot_becomes_a_committed_checkpoint(world: Rehearsal, tmp_path: Path) -> None:
    start = world.open_epoch(1, 2)
    assert (start.checkpoint, start.step, start.line) == ("", 0, 0)
    world.commit(5, 10)
    found, manifest = world.checkpoint(10), world.manifest(10)
    assert (found.job, found.step, found.epoch, found.parent) == ("jobs/j", 10, 1, "checkpoints/j/0/5")
    assert found.state_digest == manifest.state_digest
    assert list(found.verified_by) == ["committer/pool"]
    assert found.bytes == manifest.nbytes
    told = [each.name for each in world.events(Checkpoint) if each.state == CHECKPOINT_STATE_COMMITTED]
    assert told == [
        "checkpoints/j/0/5",
        "checkpoints/j/0/10",
    ]
    assert world.api.GetLine(GetRequest(name="lines/j/0"), CALL).head == 10
    staged = stage(world.blobs, found.manifest_key, tmp_path / "staged", identity=found.state_digest)
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
    world.commit(5)
    assert world.checkpoint(10).parent == "checkpoints/j/0/5"


def test_every_shape_commits_the_same_state(tmp_path: Path) -> None:
    exports = []
    for dp in (1, 2, 3):
        world = Rehearsal(tmp_path / str(dp))
        world.open_epoch(dp, dp)
        world.commit(5, 10, dp=dp, epoch=dp)
        exports.append(world.export())
        world.close()
    assert exports[0] == exports[1] == exports[2]
    assert len(exports[0]) == 3


def test_a_step_whose_shard_is_damaged_is_named_on_its_line_until_the_next_epoch(world: Rehearsal) -> None:
    def line() -> Line:
        found: Line = world.api.GetLine(GetRequest(name="lines/j/0"), CALL)
        return found

    world.open_epoch(1, 2)
    world.commit(5)
    assert line().given_up == 0
    parts = [world.store(10, dp=2, epoch=1, rank=rank) for rank in range(2)]
    world.flip(parts[0][0].shard_key)
    for part in parts:
        world.tell(*part)
    world.settle()
    assert (line().given_up, line().head) == (10, 5)
    world.open_epoch(2, 2)
    assert line().given_up == 0
    world.commit(10, epoch=2)


@pytest.mark.parametrize("nodes", [1, 2])
def test_damaged_bytes_are_never_decided(world: Rehearsal, nodes: int) -> None:
    world.open_epoch(1, 2, nodes=nodes)
    stored = [world.store(5, dp=2, epoch=1, rank=rank, node=f"nodes/{'ab'[rank]}") for rank in range(2)]
    world.flip(stored[1][0].shard_key)
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
        world.commit(10)
        assert world.checkpoint(10).parent == ""


def test_a_manifest_that_is_there_before_its_decision_is_that_of_the_checkpoint(
    world: Rehearsal, tmp_path: Path
) -> None:
    """A backup has the database of one moment, and blobs that were written a little later."""
    world.open_epoch(1, 2, nodes=2)
    stored = {node: world.store(5, dp=2, epoch=1, rank=rank, node=node) for rank, node in enumerate(NODES)}
    restored = Rehearsal(tmp_path / "restored", store=tmp_path / "blobs", clock=world.clock, life=1)
    restored.open_epoch(1, 2, nodes=2)
    for each, process in ((world, "former"), (restored, "later")):
        for node, shard in stored.items():
            each.tell(*shard, node=node)
        while each.read_back("nodes/a", process) or each.read_back("nodes/b", process):
            pass
        each.settle()
        assert each.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED
        assert each.checkpoint(5).verified_by == ["nodes/a/former", "nodes/b/former"]
    assert not list(restored.blobs.list("committer/quarantine/"))
    restored.close()


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


def test_a_checkpoint_of_a_policy_names_the_experiences_of_the_steps_since_its_parent(tmp_path: Path) -> None:
    policy = GrpoParameters(prompts=2, group=2, tokens=4, epochs=5)
    every_ten = replace(example.training(steps=STEPS), checkpoint_every=10)
    world = Rehearsal(tmp_path, training=replace(every_ten, program="grpo", program_parameters=policy))
    world.open_epoch(1, 2)
    world.commit(10)
    lost = [world.store(20, dp=2, epoch=1, rank=rank) for rank in range(2)]
    world.flip(lost[0][0].shard_key)
    for part in lost:
        world.tell(*part)
    world.settle()
    world.commit(30)
    found = [[each.parent, *each.experiences] for each in (world.checkpoint(10), world.checkpoint(30))]
    assert found == [
        ["", *(f"experiences/j/0/{iteration}" for iteration in (0, 1))],
        ["checkpoints/j/0/10", *(f"experiences/j/0/{iteration}" for iteration in (2, 3, 4, 5))],
    ]
    world.close()


def test_two_epochs_with_different_states_diverge_loudly(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    zombies = [world.store(5, dp=2, epoch=1, rank=rank, seed=7) for rank in range(2)]
    world.open_epoch(2, 2)
    world.commit(5, epoch=2)
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
    world.commit(5, epoch=2)
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
    world.commit(5, epoch=2)
    for zombie in zombies:
        with pytest.raises(StaleEpoch):
            world.tell(*zombie)
    assert not world.events(DivergenceDetected)
    assert not world.checkpoint(5).reason


def test_late_shards_that_never_become_a_whole_state_are_garbage_after_ten_minutes(world: Rehearsal) -> None:
    def late() -> int:
        shards = world.host.metadata.tables["shards"]
        query = select(func.count()).select_from(shards).where(shards.c.state == ShardState.LATE.value)
        return world.host.units.run(lambda unit: int(unit.tx.execute(query).scalar_one()))

    world.open_epoch(1, 2)
    zombie, _ = (world.store(5, dp=2, epoch=1, rank=rank, seed=7) for rank in range(2))
    world.open_epoch(2, 2)
    world.commit(5, epoch=2)
    with pytest.raises(StaleEpoch):
        world.tell(*zombie)
    for seconds, left in ((590, 1), (31, 0)):
        world.clock.advance(seconds)
        world.settle()
        assert late() == left
    assert not world.events(DivergenceDetected)
