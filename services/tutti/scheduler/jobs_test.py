"""The life of jobs: epochs, losses, recovery, the end."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete

from tutti.chassis.errors import AlreadyExists, Internal, InvalidField, Refused, StaleEpoch, Unavailable
from tutti.chassis.events.event import MAX_PAYLOAD_BYTES
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_QUARANTINED, OpenEpochRequest
from tutti.contracts.common.v1 import CancelRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DONE,
    JOB_STATE_FAILED,
    JOB_STATE_OPENING,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    RANK_EVENT_DISTURBED,
    RANK_EVENT_SPAWNED,
    STOP_RULE_CONSTANT_REWARDS,
    EpochOpened,
    Job,
    MixedDataset,
    PolicyStop,
    PolicyStopped,
    RankLost,
    RegisterNodeRequest,
    Spike,
    SpikeEnded,
)
from tutti.model.training import RoleModel, Training, WeightedDataset
from tutti.scheduler.jobrows import placed
from tutti.scheduler.jobs import HISTORY_LINES
from tutti.scheduler.world_test import CALL, Agent, World, request


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_job_waits_for_slots_and_says_how_many(world: World) -> None:
    Agent(world, slots=1)
    world.create(ranks=3)
    assert world.job().state == JOB_STATE_QUEUED
    assert world.job().reason.startswith("waiting for 2 more free slots: it needs 3, one a rank; ")


OOM, ERROR = {"reason": "OUT_OF_MEMORY"}, {"reason": "RANK_ERROR"}


def test_a_job_that_runs_out_of_memory_twice_fails_with_what_it_needs_and_what_to_lower(world: World) -> None:
    agent = Agent(world, slots=2)
    world.create(ranks=2)
    agent.lose(1, "rank 1 was killed by the kernel", 0, **OOM)
    agent.release()
    assert world.job().state == JOB_STATE_STARTING
    agent.lose(0, "rank 0: an allocation failed", 3, **OOM)
    job = world.job()
    assert (job.state, job.fruitless) == (JOB_STATE_FAILED, 2)
    assert all(words in job.reason for words in ("out of memory", "at least", "for each of 2 ranks", "an estimate"))


def test_an_error_of_a_rank_that_repeats_itself_at_the_same_step_is_no_lost_machine(world: World) -> None:
    agent = Agent(world, slots=2)
    world.create(ranks=2)
    for rank in (0, 1, 0):
        assert world.job().state != JOB_STATE_FAILED
        agent.lose(rank, f"rank {rank}: ValueError: x (RANK_ERROR)", 3, **ERROR)
        agent.release()
    assert world.job().state == JOB_STATE_FAILED
    assert "3 attempts in a row ended in the same way" in world.job().reason


@pytest.mark.parametrize(
    "ends",
    [
        [("out of memory", 3, OOM), ("killed", 3, {}), ("out of memory", 3, OOM), ("killed", 3, {})],
        [("rank 0: E", step, ERROR) for step in range(4)],
        [(f"rank 0: {step}", 3, ERROR) for step in range(4)],
        [("killed by signal 9", 3, {})] * 4,
    ],
)
def test_attempts_that_end_in_different_ways_all_count(
    ends: list[tuple[str, int, dict[str, str]]], world: World
) -> None:
    agent = Agent(world, slots=2)
    world.create(ranks=2)
    for cause, step, more in ends:
        agent.lose(0, cause, step, **more)
        agent.release()
    assert (world.job().state, world.job().fruitless) == (JOB_STATE_STARTING, 4)


def test_a_checkpoint_between_two_ends_for_memory_lets_the_job_go_on(world: World) -> None:
    agent = Agent(world, slots=2)
    world.create(ranks=2)
    agent.lose(0, "out of memory", 3, **OOM)
    agent.release()
    agent.run()
    agent.progress(10)
    world.hear(world.committer.commit(world.job(), 10))
    agent.lose(0, "out of memory", 12, **OOM)
    agent.release()
    assert world.job().state == JOB_STATE_STARTING


def test_no_words_keep_a_job_from_going_on(world: World) -> None:
    agent = Agent(world, slots=2)
    world.create(ranks=2)
    words = "\N{MUSICAL SYMBOL G CLEF}" * 4000  # as much as an agent sends
    for turn in range(HISTORY_LINES):
        agent.report(RANK_EVENT_DISTURBED, 0, cause=f"{turn} {words}")
    agent.lose(1, cause=words)
    agent.release()
    job = world.job()
    assert (job.state, job.epoch, len(job.history)) == (JOB_STATE_STARTING, 2, HISTORY_LINES)
    assert job.ByteSize() < MAX_PAYLOAD_BYTES / 2


def test_a_gang_is_not_spread_over_two_kernel_signatures(world: World) -> None:
    first = Agent(world, "a", slots=2, kernel="old")
    Agent(world, "b", slots=2, kernel="new")
    assert first.node.kernel == "old"
    world.create(ranks=3)
    assert world.job().state == JOB_STATE_QUEUED
    assert world.job().reason.startswith(
        "waiting for 1 more free slot: it needs 3, one a rank; "
        "kernel signatures differ: 2 among the nodes, and a gang has one; "
    )
    Agent(world, "c", slots=1, kernel="old")
    assert world.nodes() == {"nodes/a", "nodes/c"}


def test_a_gang_is_placed_whole_and_its_epoch_opened_first(world: World) -> None:
    world.create(ranks=3)
    first = Agent(world, "a", slots=2)
    assert first.assignments == []
    assert world.committer.opened == []
    second = Agent(world, "b", slots=2)
    job = world.job()
    assert (job.state, job.epoch, job.topology_version, job.placement_version) == (JOB_STATE_STARTING, 1, 1, 1)
    assert [list(agent.assignments[0].ranks) for agent in (first, second)] == [[0, 1], [2]]
    opened = world.committer.opened[0]
    assert (opened.nodes, list(opened.placement)) == (2, ["nodes/a", "nodes/a", "nodes/b"])
    assert EpochOpened.FromString(world.payloads("EpochOpened")[0]).topology == "topologies/a/1"


def test_a_job_runs_when_all_ranks_have_met(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.listen("127.0.0.1:7777")
    assert world.job().rendezvous == agent.assignments[0].rendezvous == "127.0.0.1:7777"
    agent.ready(0)
    assert world.job().state == JOB_STATE_STARTING
    agent.ready(1)
    assert world.job().state == JOB_STATE_RUNNING


def test_ranks_that_do_not_meet_in_time_are_named(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.spawn()
    agent.ready(0)
    world.pass_time(61)
    assert world.job().state == JOB_STATE_STOPPING
    assert "rank 1 on nodes/a not ready 60 s after spawning" in world.job().history[-1]


def test_the_time_that_staging_takes_is_not_that_of_the_rendezvous(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.report(RANK_EVENT_SPAWNED, 0)
    world.pass_time(300)
    assert world.job().state == JOB_STATE_STARTING
    agent.report(RANK_EVENT_SPAWNED, 1)
    world.pass_time(55)
    agent.run()
    assert world.job().state == JOB_STATE_RUNNING


def test_staging_has_a_deadline_of_its_own_that_names_who_is_late(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.report(RANK_EVENT_SPAWNED, 0)
    world.pass_time(601)
    assert world.job().state == JOB_STATE_STOPPING
    assert "rank 1 on nodes/a not spawned, their data staged, 600 s after placing" in world.job().history[-1]


def test_a_lost_rank_ends_the_epoch_and_the_next_resumes_from_the_last_decision(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    agent.progress(7)
    world.hear(world.committer.commit(world.job(), 5))
    agent.lose(1)
    job = world.job()
    assert job.state == JOB_STATE_STOPPING
    assert "waits for nodes/a to release it" in job.reason
    assert job.history[-1] == "epoch 1: rank 1 on nodes/a lost (killed by signal 9) after step 7"
    assert agent.assignments[0].stop
    lost = RankLost.FromString(world.payloads("RankLost")[0])
    assert (lost.epoch, lost.rank, lost.step) == (1, 1, 7)
    agent.release()
    job = world.job()
    assert (job.state, job.epoch, job.fruitless) == (JOB_STATE_STARTING, 2, 1)
    assert (job.resume_checkpoint, job.resume_digest, job.step) == ("checkpoints/a/0/5", "state-5", 5)
    assert agent.assignments[0].resume_manifest_key == "committer/manifests/5.json"
    assert (job.topology_version, job.placement_version) == (1, 1)


def test_the_rank_at_fault_is_named_although_its_peers_were_faster_to_complain(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    agent.lose(0, "its peer closed the connection")
    agent.lose(1)
    agent.lose(1)
    assert [line.partition(" on ")[0] for line in world.job().history[-2:]] == ["epoch 1: rank 0", "epoch 1: rank 1"]
    assert len(world.payloads("RankLost")) == 2
    assert world.job().epoch == 1


def test_slots_are_handed_on_only_by_their_agent(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    world.create("jobs/b")
    world.api.CancelJob(CancelRequest(name="jobs/a"), CALL)
    world.settle()
    assert world.job().state == JOB_STATE_CANCELLED
    assert world.job("jobs/b").state == JOB_STATE_QUEUED
    agent.release()
    assert world.job("jobs/b").state == JOB_STATE_STARTING


def test_attempts_without_a_checkpoint_are_bounded_and_the_history_says_why(world: World) -> None:
    agent = Agent(world)
    world.create()
    for attempt in range(5):
        assert world.job().state == JOB_STATE_STARTING, attempt
        agent.run()
        agent.lose(0, f"cause {attempt}", step=0)
        agent.release()
    job = world.job()
    assert job.state == JOB_STATE_FAILED
    assert "5 attempts without a new checkpoint" in job.reason
    assert all(any(f"cause {attempt}" in line for line in job.history) for attempt in range(5))
    assert agent.assignments == []


def test_a_job_that_would_end_in_the_same_way_again_fails_at_once_and_gives_its_slots_back(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    world.hear(world.committer.commit(world.job(), 3))
    stop = PolicyStop(rule=STOP_RULE_CONSTANT_REWARDS, seen=1, limit=2)
    for _ in range(2):
        agent.lose(0, "iteration 4: constant rewards (POLICY_STOPPED)", final=True, stop=stop)
    job = world.job()
    assert (job.state, job.epoch, job.decided_step) == (JOB_STATE_FAILED, 1, 3)
    assert job.reason.endswith(
        "iteration 4: constant rewards (POLICY_STOPPED)) after step 7; each attempt would end in the same way"
    )
    assert len(world.payloads("RankLost")) == 1
    agent.lose(1, "iteration 4: constant rewards (POLICY_STOPPED)", final=True, stop=stop)
    agent.release()
    assert (world.job().state, agent.assignments) == (JOB_STATE_FAILED, [])
    (stopped,) = (PolicyStopped.FromString(each) for each in world.payloads("PolicyStopped"))
    told = PolicyStopped(job=job.name, epoch=1, step=7, rule=stop.rule, seen=stop.seen, limit=stop.limit)
    assert stopped == told


def test_a_spike_is_a_line_of_the_history_and_a_fact_once_an_attempt(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    spike = Spike(first=40, last=47, loss=1.75, gradient_norm=9.5, skipped=6)
    for _ in range(2):
        agent.report(RANK_EVENT_DISTURBED, 0, spike=spike)
    (line,) = (each for each in world.job().history if "spike" in each)
    assert all(words in line for words in ("steps 40 to 47", "6 skipped", "1.75"))
    (ended,) = (SpikeEnded.FromString(each) for each in world.payloads("SpikeEnded"))
    assert ended == SpikeEnded(job=world.job().name, epoch=1, spike=spike)
    assert world.job().state == JOB_STATE_RUNNING


def test_a_checkpoint_that_an_audit_covers_gives_all_attempts_back(world: World) -> None:
    agent = Agent(world)
    world.create(steps=100)
    for attempt in range(7):
        agent.run()
        agent.progress(10 * attempt + 10)
        world.hear(world.committer.commit(world.job(), 10 * attempt + 5))
        agent.lose(0)
        agent.release()
    assert world.job().state == JOB_STATE_STARTING
    assert world.job().fruitless == 0


def test_a_checkpoint_that_no_audit_covers_gives_no_attempt_back(world: World) -> None:
    agent = Agent(world)
    world.create()
    for step in range(1, 6):
        agent.run()
        agent.progress(9)
        world.hear(world.committer.commit(world.job(), step))
        agent.lose(0)
        agent.release()
    assert (world.job().state, world.job().fruitless) == (JOB_STATE_FAILED, 5)


def test_a_job_is_done_when_its_last_checkpoint_is_committed(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    agent.progress(20, loss=2.0)
    agent.finish()
    job = world.job()
    assert job.state == JOB_STATE_RUNNING
    assert "waits for the checkpoint of step 20" in job.reason
    world.committer.commit(job, 20)
    world.pass_time(3)
    job = world.job()
    assert (job.state, job.step, job.decided_step) == (JOB_STATE_DONE, 20, 20)
    assert (job.model_digest, job.state_digest, job.bits_per_byte) == ("model-20", "state-20", 1.5)
    assert agent.assignments[0].stop
    agent.release()
    assert agent.assignments == []


def test_a_job_that_hears_of_its_last_checkpoint_first_ends_with_all_that_is_known_of_it(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    world.hear_committed(world.committer.commit(world.job(), 20))
    job = world.job()
    assert (job.state, job.step, job.loss, job.bits_per_byte) == (JOB_STATE_DONE, 20, 2.5, 1.5)


@pytest.mark.parametrize("placed", [True, False])
def test_a_job_whose_last_checkpoint_is_quarantined_makes_it_again_from_the_one_before(
    world: World, *, placed: bool
) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    job = world.job()
    world.hear(world.committer.commit(job, 15))
    if not placed:
        agent.lose(1)
    last = world.committer.commit(job, 20)
    last.state, last.reason = CHECKPOINT_STATE_QUARANTINED, "a flipped bit"
    world.hear_committed(last)
    assert any("checkpoints/a/0/20, is quarantined: a flipped bit" in line for line in world.job().history)
    agent.release()
    job = world.job()
    assert (job.state, job.epoch, job.resume_checkpoint) == (JOB_STATE_STARTING, 2, "checkpoints/a/0/15")
    assert job.decided_step == 15


def test_a_last_checkpoint_that_is_always_damaged_fails_the_job(world: World) -> None:
    agent = Agent(world)
    world.create()
    for attempt in range(5):
        assert world.job().state == JOB_STATE_STARTING, attempt
        agent.run()
        last = world.committer.commit(world.job(), 20)
        last.state = CHECKPOINT_STATE_QUARANTINED
        world.hear_committed(last)
        agent.release()
    assert world.job().state == JOB_STATE_FAILED
    assert "5 attempts without a new checkpoint" in world.job().reason


@pytest.mark.parametrize("found", ["before it was decided", "as it was published"])
def test_a_last_step_that_cannot_be_committed_opens_the_next_epoch_at_once(world: World, found: str) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    world.hear(world.committer.commit(world.job(), 15))
    agent.finish()
    if found == "before it was decided":
        world.committer.given_up, world.committer.given_up_because = 20, "rank 0 on nodes/a: damaged"
    else:
        world.committer.commit(world.job(), 20).state = CHECKPOINT_STATE_QUARANTINED
    world.pass_time(3)
    job = world.job()
    assert job.state == JOB_STATE_STOPPING
    assert "damaged" in job.history[-1] or "quarantined" in job.history[-1]
    agent.release()
    assert (world.job().epoch, world.job().resume_checkpoint) == (2, "checkpoints/a/0/15")


def test_a_rank_that_dies_after_the_last_checkpoint_costs_no_epoch(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    world.committer.commit(world.job(), 20)
    agent.lose(0, step=20)
    agent.release()
    assert world.job().state == JOB_STATE_DONE
    assert world.job().state_digest == "state-20"


def test_a_report_of_an_old_epoch_is_refused(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    agent.lose(0)
    agent.release()
    with pytest.raises(StaleEpoch, match="epoch 2"):
        agent.progress(9, epoch=1)
    with pytest.raises(StaleEpoch):
        agent.report(3, 0, epoch=1)
    with pytest.raises(Refused, match="never given out"):
        agent.progress(9, epoch=9)
    assert world.job().step == 0


def test_a_rank_that_is_not_placed_here_is_refused(world: World) -> None:
    agent = Agent(world)
    world.create()
    with pytest.raises(InvalidField, match="rank 5 on nodes/a"):
        agent.report(3, 5)


def test_an_agent_that_comes_back_as_a_new_process_voids_what_the_old_one_ran(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    again = Agent(world, incarnation="2")
    world.pass_backoff()
    job = world.job()
    assert (job.state, job.epoch) == (JOB_STATE_STARTING, 2)
    assert any("nodes/a has a new agent" in line for line in job.history)
    assert [each.epoch for each in again.assignments] == [2]
    with pytest.raises(StaleEpoch, match="run by the agent 2"):
        agent.heartbeat()


def test_registering_again_changes_nothing(world: World) -> None:
    agent = Agent(world)
    world.create()
    before = agent.node
    assert Agent(world).node == before


def test_a_committer_that_is_away_delays_the_epoch_and_says_so(world: World) -> None:
    world.committer.down = Unavailable("nobody answers")
    Agent(world)
    world.create()
    assert world.job().state == JOB_STATE_OPENING
    assert world.job().reason == "retrying: nobody answers"
    world.committer.down = None
    world.pass_time(40)
    assert world.job().state == JOB_STATE_STARTING
    assert world.job().epoch == 1


def test_a_committer_that_is_away_for_a_day_ends_no_job_and_one_with_a_defect_does(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    for problem, state in ((Unavailable("nobody answers"), JOB_STATE_RUNNING), (Internal("a bug"), JOB_STATE_FAILED)):
        world.committer.down = problem
        world.pass_time(600)
        assert world.job().state == state
        assert problem.message in world.job().reason
    assert world.job().reason == "gave up after 10 attempts: a bug"


def test_a_line_that_is_stuck_ends_the_epoch_with_its_reason(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    world.committer.line_reason = "commits: retrying: a bug"
    world.pass_time(40)
    assert world.job().reason == "the committer: commits: retrying: a bug"
    world.committer.line_reason = ""
    world.pass_time(40)
    assert (world.job().state, world.job().reason) == (JOB_STATE_RUNNING, "")
    world.committer.line_reason, world.committer.stuck = "commits: gave up after 10 attempts: a bug", True
    world.pass_time(40)
    assert (world.job().epoch, world.job().state) == (1, JOB_STATE_STOPPING)
    assert world.job().history[-1] == "epoch 1: the committer: commits: gave up after 10 attempts: a bug"


def test_a_refusal_of_the_committer_fails_the_job(world: World) -> None:
    world.committer.down = Refused("TOPOLOGY_CHANGED", "the checkpoint has another shape")
    Agent(world)
    world.create()
    assert world.job().state == JOB_STATE_FAILED
    assert "another shape" in world.job().reason


def test_an_epoch_that_the_committer_calls_stale_is_followed_by_a_higher_one(world: World) -> None:
    world.committer.OpenEpoch(_epoch("jobs/a", 3), CALL)
    Agent(world)
    world.create()
    assert (world.job().state, world.job().epoch) == (JOB_STATE_STARTING, 4)


def test_progress_is_taken_from_a_node_of_the_gang_alone_and_not_beyond_the_last_step(world: World) -> None:
    agent, other = Agent(world, "a"), Agent(world, "b")
    world.create(steps=20)
    agent.spawn()
    agent.ready()
    with pytest.raises(InvalidField, match="nodes/b"):
        other.progress(19)
    with pytest.raises(InvalidField, match="at most 20"):
        agent.progress(21)
    agent.progress(20)
    assert world.job().step == 20


def test_an_answer_that_was_lost_while_the_nodes_changed_costs_an_epoch_number(world: World) -> None:
    world.committer.forgets = Unavailable("the answer was lost")
    first = Agent(world, "a", slots=1)
    Agent(world, "b", slots=1)
    world.create()
    assert (world.job().state, world.job().epoch) == (JOB_STATE_OPENING, 1)
    Agent(world, "c", slots=2)
    world.committer.forgets = None
    world.pass_time(40)
    assert (world.job().state, world.job().epoch) == (JOB_STATE_STARTING, 2)
    assert first.assignments == []


def test_ranks_are_placed_where_the_committer_was_told_or_the_next_epoch_is_opened(world: World) -> None:
    first = Agent(world, "a", slots=3)
    register = RegisterNodeRequest(name="nodes/b", incarnation="1", slots=2, devices=["cpu"])  # leaves no slot over
    world.committer.meanwhile = lambda: world.api.RegisterNode(register, CALL)
    world.create(ranks=2)
    assert [each.placement[0] for each in world.committer.opened] == ["nodes/a", "nodes/b"]
    assert (world.job().state, world.job().epoch, world.nodes()) == (JOB_STATE_STARTING, 2, {"nodes/b"})
    assert first.assignments == []


@pytest.mark.parametrize("moment", ["queued", "starting", "running", "stopping", "finished"])
def test_a_scheduler_that_restarts_at_any_moment_goes_on(world: World, moment: str) -> None:
    def restart(here: str) -> None:
        if here == moment:
            world.start()
            world.settle()

    world.create()
    restart("queued")
    agent = Agent(world)
    restart("starting")
    agent.run()
    restart("running")
    world.committer.commit(world.job(), 5)
    agent.lose(0)
    restart("stopping")
    agent.release()
    agent.run()
    agent.finish()
    world.committer.commit(world.job(), 20)
    restart("finished")
    world.pass_time(3)
    assert (world.job().state, world.job().epoch, world.job().state_digest) == (JOB_STATE_DONE, 2, "state-20")


def test_a_scheduler_that_comes_back_says_so_in_the_history_of_what_runs(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    for _ in range(2):
        world.start()
        world.settle()
    assert len(world.job().history) == 1
    agent.progress(1)
    world.clock.advance(40)
    world.settle()
    agent.progress(2)
    agent.progress(3)
    assert (world.job().state, world.job().epoch) == (JOB_STATE_RUNNING, 1)
    assert world.job().history[1:] == [
        "epoch 1: the scheduler was started again; its ranks went on",
        "epoch 1: the scheduler was away for 40 s; its ranks went on",
    ]


def test_what_disturbed_a_rank_is_history_and_changes_nothing_else(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    before = world.job()
    for _ in range(2):
        agent.report(RANK_EVENT_DISTURBED, 1, cause="the I/O child (process 7) ended (SIGKILL): another took over")
    after = world.job()
    assert after.history[-1] == "epoch 1: nodes/a: the I/O child (process 7) ended (SIGKILL): another took over"
    assert (after.state, after.epoch, after.revision) == (JOB_STATE_RUNNING, 1, before.revision + 1)
    agent.lose(1)
    assert world.job().state == JOB_STATE_STOPPING


def test_missed_events_cost_latency_alone(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    world.committer.commit(world.job(), 5)
    world.pass_time(31)
    assert world.job().decided_step == 5


def test_an_old_or_repeated_checkpoint_event_changes_nothing(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    five, ten = (world.committer.commit(world.job(), step) for step in (5, 10))
    world.hear(ten)
    before = world.job()
    world.hear(five)
    world.hear(ten)
    assert world.job() == before


def test_progress_is_an_event_at_most_once_a_second_and_never_lost(world: World) -> None:
    agent = Agent(world)
    world.create()
    agent.run()
    before = world.job().revision
    for step in range(1, 9):
        agent.progress(step)
    assert world.job().revision == before + 1
    agent.lose(0, step=8)
    assert world.job().step == 8


def test_first_come_first_served_but_an_impossible_job_blocks_nobody(world: World) -> None:
    Agent(world)
    world.create("jobs/huge", ranks=8)
    world.create("jobs/a")
    world.clock.advance(1)
    world.create("jobs/later")
    assert world.job("jobs/a").state == JOB_STATE_STARTING
    world.clock.advance(1)
    world.create("jobs/last", ranks=1)
    assert world.job("jobs/last").reason == "waiting for jobs/later, which was there first"


def test_a_repeated_create_is_the_same_job_and_another_body_is_refused(world: World) -> None:
    first = world.create()
    assert world.api.CreateJob(request("jobs/a", ranks=2), CALL).job.name == first.name
    with pytest.raises(AlreadyExists):
        world.api.CreateJob(request("jobs/a", ranks=3), CALL)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("training", "{}"),
        ("training", ""),
        ("training_digest", "x"),
        ("dataset_digest", "blake3:" + "e" * 64),
        ("leaves", 4),
        ("steps", 7),
        ("data_parallel", 9),
        ("data_parallel", 0),
        ("dataset_manifest_key", ""),
    ],
)
def test_a_job_that_contradicts_its_training_is_refused_by_field(world: World, field: str, value: object) -> None:
    wrong = request("jobs/a", ranks=2)
    setattr(wrong.spec, field, value)
    with pytest.raises(InvalidField, match=f"spec.{field}"):
        world.api.CreateJob(wrong, CALL)


def test_a_job_names_exactly_the_datasets_that_its_training_mixes(world: World) -> None:
    other = MixedDataset(manifest_key="tokenization/manifests/o.json", digest="blake3:" + "e" * 64)
    wanted = request("jobs/a", ranks=2)
    training = Training.from_json(wanted.spec.training)
    mixture = (WeightedDataset(training.dataset, 3), WeightedDataset(other.digest, 1))
    training = replace(training, mixture=mixture)
    wanted.spec.training, wanted.spec.training_digest = training.to_json(), training.digest()
    with pytest.raises(InvalidField, match=r"spec\.mixed"):
        world.api.CreateJob(wanted, CALL)
    wanted.spec.mixed.append(other)
    agent = Agent(world, slots=2)
    world.api.CreateJob(wanted, CALL)
    world.settle()
    assert [list(each.mixed) for each in agent.assignments] == [[other]]


def test_a_job_over_conversations_names_tokenizer_and_models_and_its_nodes_are_told(world: World) -> None:
    digest = "blake3:" + "e" * 64
    wanted = request("jobs/a", ranks=2)
    training = Training.from_json(wanted.spec.training)
    reference = RoleModel("reference", "checkpoints/b/0/5", digest)
    training = replace(training, tokenizer=digest, template=digest, models=(reference,))
    wanted.spec.training, wanted.spec.training_digest = training.to_json(), training.digest()
    with pytest.raises(InvalidField, match=r"spec\.models"):
        world.api.CreateJob(wanted, CALL)
    wanted.spec.models.add(role="reference", checkpoint="checkpoints/b/0/5", state_digest=digest)
    with pytest.raises(InvalidField, match=r"spec\.tokenizer_key"):
        world.api.CreateJob(wanted, CALL)
    wanted.spec.tokenizer_key, wanted.spec.source = "tokenization/tokenizers/e.json", "conversations/c"
    agent = Agent(world, slots=2)
    world.api.CreateJob(wanted, CALL)
    world.settle()
    assert [each.tokenizer_key for each in agent.assignments] == ["tokenization/tokenizers/e.json"]


def _epoch(job: str, epoch: int) -> OpenEpochRequest:
    return OpenEpochRequest(job=job, epoch=epoch)


def test_a_job_that_version_0_1_placed_goes_on_and_keeps_its_history(world: World) -> None:
    first, second = Agent(world, "a", slots=1), Agent(world, "b", slots=1)
    world.create(ranks=2)
    first.run()
    second.run()
    as_version_0_1(world)
    world.start()
    for agent in (first, second):
        agent.heartbeat()
    assert world.job().history == ["epoch 1: 2 ranks on nodes/a, nodes/b from the start"]
    first.lose(0)
    assert [each.stop for agent in (first, second) for each in agent.assignments] == [True, True]
    assert world.job().state == JOB_STATE_STOPPING
    assert world.job().reason.endswith("waits for nodes/a, nodes/b to release it")
    first.release()
    assert world.job().reason.endswith("waits for nodes/b to release it")
    second.release()
    job = world.job()
    assert (job.state, job.epoch, job.placement_version, world.nodes()) == (
        JOB_STATE_STARTING,
        2,
        1,
        {"nodes/a", "nodes/b"},
    )
    assert job.history == [
        "epoch 1: 2 ranks on nodes/a, nodes/b from the start",
        "epoch 1: the scheduler was started again; its ranks went on",
        "epoch 1: rank 0 on nodes/a lost (killed by signal 9) after step 7",
        "epoch 2: 2 ranks on nodes/a, nodes/b from the start",
    ]
    newest = Job.FromString(world.payloads("Job")[-1])
    assert (newest.history_lines, len(newest.history), len(newest.placement)) == (4, 0, 0)


def as_version_0_1(world: World) -> None:
    """Put history and placement of jobs/a back where that version kept them: into the job itself."""

    def work(unit: Unit) -> None:
        tables = world.tables
        job = tables.jobs.with_history(unit, tables.jobs.lock(unit, "jobs/a"))
        job.placement.extend(placed(tables.placements.seats(unit, job.name, job.topology_version)))
        job.ClearField("history_lines")
        Resource.put(tables.jobs, unit, job)
        for table in (tables.jobs.lines, tables.placements.table):
            unit.tx.execute(delete(table))

    world.host.units.run(work)
