"""Shards: what is taken from agents, found in the store, and read back by others."""

from dataclasses import replace

import pytest

from tutti.chassis.errors import (
    AlreadyExists,
    FencedOff,
    InvalidField,
    NotFound,
    PermissionDenied,
    Refused,
    StaleEpoch,
    Unavailable,
)
from tutti.checkpoints import ShardName
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CheckHolderRequest,
    PruneCheckpointsRequest,
    ReportShardRequest,
)
from tutti.contracts.common.v1 import GetRequest


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
    world.commit(5)
    assert world.tell(name, stored) is True
    world.open_epoch(2, 2)
    assert world.tell(name, stored) is True


def test_a_report_of_another_attempt_is_refused(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    with pytest.raises(Refused, match="shape"):
        world.tell(*world.store(10, dp=3, epoch=1, rank=0))
    name, stored = world.store(5, dp=2, epoch=1, rank=0)
    with pytest.raises(InvalidField, match="report_key"):
        world.tell(name, stored, node="nodes/b")
    world.blobs.delete(stored.report_key)
    with pytest.raises(Refused, match="not in the store"):
        world.tell(name, stored)


def test_a_report_among_the_blobs_of_another_node_is_not_found(world: Rehearsal) -> None:
    world.open_epoch(1, 1)
    name, stored = world.store(5, dp=1, epoch=1, rank=0, node="nodes/a")
    data = world.blobs.get(name.report_key)
    world.blobs.put_if_absent(name.stored_by("nodes/b").report_key, data)
    world.blobs.delete(name.report_key)
    world.clock.advance(31)
    world.settle()
    with pytest.raises(Refused, match="expected its own"):
        world.tell(name, replace(stored, report_key=name.stored_by("nodes/b").report_key), node="nodes/b")
    with pytest.raises(NotFound):
        world.checkpoint(5)
    world.blobs.put_if_absent(name.report_key, data)
    world.clock.advance(31)
    world.settle()
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED


def test_shards_of_an_earlier_version_are_found_committed_and_removed_under_their_own_keys(world: Rehearsal) -> None:
    world.open_epoch(1, 2)
    world.tell(*world.store(5, dp=2, epoch=1, rank=0, earlier=True))
    world.store(5, dp=2, epoch=1, rank=1, earlier=True)
    world.clock.advance(31)
    world.settle()
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED
    keys = {stat.key for stat in world.blobs.list("trainer/")}
    assert "trainer/shards/j.0.5.1.0.bin" in keys
    assert len(keys) == 4
    world.commit(10)
    world.api.PruneCheckpoints(PruneCheckpointsRequest(job="jobs/j", keep_last=1), CALL)
    for _ in range(2):
        world.clock.advance(700)
        world.settle()
    assert not keys & {stat.key for stat in world.blobs.list("trainer/")}


def test_only_the_node_where_a_rank_is_placed_reports_its_shards(world: Rehearsal) -> None:
    world.open_epoch(1, 2, nodes=2, placement=["nodes/a", "nodes/b"])
    forged = world.store(5, dp=2, epoch=1, rank=1, node="nodes/a", seed=7)
    with pytest.raises(InvalidField, match="nodes/b, where rank 1 is placed"):
        world.tell(*forged)
    lost = ReportShardRequest(job="jobs/j", step=5, epoch=1, rank=1, node="nodes/a", error="no reason")
    with pytest.raises(InvalidField, match="nodes/b, where rank 1 is placed"):
        world.api.ReportShard(lost, CALL)
    world.snapshot(5, dp=2, epoch=1)
    world.settle()
    world.clock.advance(61)
    world.settle()
    keys = [each.key for each in world.manifest(5).blobs]
    assert keys == ["trainer/shards/j.0.5.1.0=a", "trainer/shards/j.0.5.1.1=b"]
    world.open_epoch(2, 2)  # by a scheduler of an earlier version, which names no placement
    world.tell(*world.store(10, dp=2, epoch=2, rank=1, node="nodes/a"))


def test_a_report_in_the_store_by_another_node_neither_counts_nor_stops_the_next_epoch(world: Rehearsal) -> None:
    world.open_epoch(1, 2, nodes=2, placement=["nodes/a", "nodes/b"])
    world.store(5, dp=2, epoch=1, rank=1, node="nodes/a", seed=7)
    world.store(5, dp=3, epoch=1, rank=2, node="nodes/a")
    for rank, node in enumerate(["nodes/a", "nodes/b"]):
        world.store(5, dp=2, epoch=1, rank=rank, node=node)
    for _ in range(3):
        world.clock.advance(31)
        world.settle()
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED
    world.store(10, dp=2, epoch=1, rank=1, node="nodes/a", seed=7)
    assert world.open_epoch(2, 2, placement=["nodes/a", "nodes/a"]).step == 5


@pytest.mark.parametrize("placement", [["nodes/a"], ["nodes/a", "nodes/b c"]])
def test_a_placement_that_names_no_node_for_a_rank_is_refused(world: Rehearsal, placement: list[str]) -> None:
    with pytest.raises(InvalidField, match="placement"):
        world.open_epoch(1, 2, placement=placement)


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


def test_a_snapshot_that_will_never_be_stored_gives_its_step_up_with_the_reason(world: Rehearsal) -> None:
    def lose(rank: int, *, epoch: int = 1) -> bool:
        found: bool = world.api.ReportShard(
            ReportShardRequest(job="jobs/j", step=10, epoch=epoch, rank=rank, node="nodes/a", error="the disk tore it"),
            CALL,
        ).decided
        return found

    world.open_epoch(1, 2)
    world.commit(5)
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
    world.commit(15)
    assert world.checkpoint(15).parent == "checkpoints/j/0/5"
    world.open_epoch(2, 2)
    line = world.api.GetLine(GetRequest(name="lines/j/0"), CALL)
    assert (line.given_up, line.given_up_because) == (0, "")
    with pytest.raises(StaleEpoch):
        lose(0)
    with pytest.raises(Refused, match="never opened"):
        lose(0, epoch=3)


def placed(world: Rehearsal) -> None:
    world.open_epoch(1, 2, nodes=2, placement=["nodes/a", "nodes/b"])
    world.snapshot(5, dp=2, epoch=1)
    world.settle()


def test_a_node_without_a_rank_of_the_job_is_given_nothing_to_verify(world: Rehearsal) -> None:
    placed(world)
    assert not world.claim("nodes/stranger").verification
    assert not world.claim("nodes").verification
    assert ShardName.of_report(world.claim("nodes/a").report_key).rank == 1


def test_damage_that_a_reader_invents_neither_counts_nor_leaves_evidence(world: Rehearsal) -> None:
    placed(world)
    for node in ("nodes/a", "nodes/b"):
        claim = world.claim(node)
        for _ in range(2):
            world.answer(claim, node, "damaged, believe me")
        with pytest.raises(FencedOff):
            world.answer(claim, node)
    world.settle()
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED
    assert list(world.checkpoint(5).verified_by) == ["committer/pool"]
    assert not list(world.blobs.list("committer/quarantine/"))


def test_a_claim_that_lapsed_leaves_no_evidence(world: Rehearsal) -> None:
    placed(world)
    old = world.claim("nodes/a")
    world.clock.advance(61)
    world.claim("nodes/a")
    with pytest.raises(FencedOff):
        world.answer(old, "nodes/a", "damaged, believe me")
    assert not list(world.blobs.list("committer/quarantine/"))


def test_the_nodes_of_an_epoch_are_known_after_it_was_sealed(world: Rehearsal) -> None:
    placed(world)
    world.open_epoch(2, 2, nodes=2, placement=["nodes/b", "nodes/c"])

    def check(node: str, epoch: int) -> bool:
        holder = CheckHolderRequest(job="jobs/j", epoch=epoch, node=node)
        sealed: bool = world.api.CheckHolder(holder, CALL).sealed
        return sealed

    for node, epoch in (("nodes/a", 1), ("nodes/b", 1), ("nodes/b", 2), ("nodes/c", 2), ("nodes/c", 0)):
        assert check(node, epoch) == (epoch == 1)
    for node, epoch in (("nodes/c", 1), ("nodes/a", 2), ("nodes/a", 0), ("nodes", 1)):
        with pytest.raises(PermissionDenied) as caught:
            check(node, epoch)
        assert caught.value.reason == "NO_RANK"
    for job, epoch in (("jobs/j", 3), ("jobs/other", 0)):
        with pytest.raises(Unavailable):
            world.api.CheckHolder(CheckHolderRequest(job=job, epoch=epoch, node="nodes/a"), CALL)


def test_a_stranger_reports_no_shard_of_a_sealed_epoch(world: Rehearsal) -> None:
    """Another state of a decided step would be a divergence, from which the job goes back."""
    world.open_epoch(1, 2, nodes=2, placement=["nodes/a", "nodes/b"])
    world.open_epoch(2, 2, nodes=2, placement=["nodes/a", "nodes/b"])
    world.snapshot(5, dp=2, epoch=2)
    world.settle()
    world.clock.advance(61)
    world.settle()
    for rank in range(2):
        with pytest.raises(PermissionDenied) as caught:
            world.tell(*world.store(5, dp=2, epoch=1, rank=rank, node="nodes/c", seed=7), node="nodes/c")
        assert caught.value.reason == "NO_RANK"
    world.settle()
    assert not world.checkpoint(5).suspect
    with pytest.raises(StaleEpoch):
        world.tell(*world.store(5, dp=2, epoch=1, rank=0, node="nodes/a", seed=7), node="nodes/a")
