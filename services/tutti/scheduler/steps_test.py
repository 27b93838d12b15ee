"""The steps of a job's life, one at a time: what each changes, and that it changes nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tutti.contracts.common.v1 import Shape
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DONE,
    JOB_STATE_FAILED,
    JOB_STATE_OPENING,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    JOB_STATE_STARTING,
    JOB_STATE_STOPPING,
    Job,
    JobSpec,
    Pace,
    Straggler,
)
from tutti.scheduler import jobs
from tutti.scheduler.gangs import Seat
from tutti.scheduler.jobs import Committed, Crossed, ResumePoint

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FRESH = ResumePoint("", "", "", line=0, step=0)
RESUMED = ResumePoint("checkpoints/a/1/5", "manifests/5.json", "state-5", line=1, step=5)


def job(**fields: Any) -> Job:
    made = Job(name="jobs/a", spec=JobSpec(steps=20), state=JOB_STATE_RUNNING, epoch=3, topology_version=2)
    made.shape.data_parallel, made.shape.digest = 2, "two"
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def changes(before: Job, after: Job) -> set[str]:
    """The fields that a step changed, the history aside."""
    names = {field.name for field in Job.DESCRIPTOR.fields} - {"history"}
    return {name for name in names if getattr(before, name) != getattr(after, name)}


def test_a_new_job_is_queued() -> None:
    made = jobs.created("jobs/a", JobSpec(steps=20), NOW)
    assert (made.name, made.spec.steps, made.state, made.epoch) == ("jobs/a", 20, JOB_STATE_QUEUED, 0)
    assert made.started_at.ToDatetime(UTC) == NOW


def test_every_epoch_has_the_next_number_and_a_new_shape_the_next_version() -> None:
    before = job(rendezvous="127.0.0.1:4000")
    same = jobs.opening(before, before.shape)
    assert changes(before, same) == {"state", "epoch", "reason", "rendezvous"}
    assert (same.state, same.epoch, same.topology_version) == (JOB_STATE_OPENING, 4, 2)
    assert (same.reason, same.rendezvous) == ("opening epoch 4", "")
    other = jobs.opening(before, Shape(data_parallel=3, digest="three"))
    assert (other.epoch, other.topology_version, other.shape.data_parallel) == (4, 3, 3)


@pytest.mark.parametrize(("moved", "version"), [(False, 7), (True, 8)])
def test_an_epoch_resumes_where_the_committer_says_and_counts_placements_that_moved(
    *, moved: bool, version: int
) -> None:
    before = job(placement_version=7, skipped_in_a_row=4, step=9, decided_step=8)
    after = jobs.starting(before, RESUMED, [Seat(0, "nodes/a", "cpu"), Seat(1, "nodes/b", "cpu")], moved=moved)
    assert (after.state, after.reason) == (JOB_STATE_STARTING, "waits for 2 ranks to start")
    assert (after.line, after.step, after.decided_step) == (1, 5, 5)
    assert (after.resume_checkpoint, after.resume_manifest_key, after.resume_digest) == (
        "checkpoints/a/1/5",
        "manifests/5.json",
        "state-5",
    )
    assert (after.skipped_in_a_row, after.placement_version) == (0, version)
    assert list(after.history) == ["epoch 3: 2 ranks on nodes/a, nodes/b from step 5"]


def test_the_history_says_on_which_nodes_a_gang_began() -> None:
    def line(resume: ResumePoint, ranks: int) -> str:
        seats = [Seat(rank, "nodes/a", "cpu") for rank in range(ranks)]
        return jobs.starting(job(), resume, seats, moved=False).history[-1]

    assert line(FRESH, 1) == "epoch 3: 1 rank on nodes/a from the start"
    assert line(FRESH, 2) == "epoch 3: 2 ranks on nodes/a from the start"


def test_a_step_that_was_crossed_is_recorded_unless_a_later_one_is() -> None:
    before = job(step=7, loss=3.0, bits_per_byte=1.5, skipped=1)
    newer = jobs.progressed(before, Crossed(8, 2.5, None, 2, 1))
    assert (newer.step, newer.loss, newer.bits_per_byte) == (8, 2.5, 1.5)
    assert (newer.skipped, newer.skipped_in_a_row) == (2, 1)
    evaluated = jobs.progressed(before, Crossed(7, 2.5, 1.25, 1, 0))
    assert (evaluated.step, evaluated.loss, evaluated.bits_per_byte) == (7, 2.5, 1.25)
    assert jobs.progressed(before, Crossed(6, 2.5, 1.25, 5, 5)) == before


FIVE = Committed(line=0, step=5, model_digest="model-5", state_digest="state-5", bits_per_byte=1.5, loss=2.5)


def test_a_job_keeps_the_mean_loss_of_its_newest_steps_and_not_that_of_the_step_of_a_checkpoint() -> None:
    assert jobs.committed(job(step=4, loss=3.0), FIVE).loss == 3.0
    assert [jobs.committed(job(step=step), FIVE).loss for step in (0, 5)] == [2.5, 2.5]


def test_a_checkpoint_gives_attempts_back_and_says_what_was_decided() -> None:
    before = job(step=5, loss=3.0, fruitless=2)
    after = jobs.committed(before, FIVE)
    assert (after.line, after.decided_step, after.model_digest, after.state_digest) == (0, 5, "model-5", "state-5")
    assert (after.fruitless, after.step, after.loss, after.bits_per_byte) == (0, 5, 3.0, 1.5)


def test_a_checkpoint_of_a_step_before_the_newest_crossed_one_keeps_the_newer_loss() -> None:
    after = jobs.committed(job(step=6, loss=3.0, bits_per_byte=1.75), replace(FIVE, bits_per_byte=None))
    assert (after.decided_step, after.step, after.loss, after.bits_per_byte) == (5, 6, 3.0, 1.75)


def test_a_checkpoint_of_an_older_step_or_line_changes_nothing() -> None:
    for before in (job(decided_step=6, fruitless=2), job(line=1, decided_step=3, fruitless=2)):
        assert jobs.committed(before, FIVE) == before
    assert jobs.committed(job(decided_step=9), replace(FIVE, line=1)).decided_step == 5


def test_a_repeated_checkpoint_gives_no_attempt_back_but_says_again_what_was_decided() -> None:
    after = jobs.committed(job(decided_step=5, fruitless=2), FIVE)
    assert (after.fruitless, after.model_digest) == (2, "model-5")


@pytest.mark.parametrize(("step", "fruitless"), [(19, 0), (20, 2)])
def test_the_last_checkpoint_gives_no_attempt_back(step: int, fruitless: int) -> None:
    assert jobs.committed(job(fruitless=2), replace(FIVE, step=step)).fruitless == fruitless


def test_a_damaged_decision_is_taken_back_to_where_the_attempt_began() -> None:
    before = job(decided_step=20, model_digest="model-20", state_digest="state-20", resume_digest="state-5")
    after = jobs.uncommitted(before, 5)
    assert (after.decided_step, after.model_digest, after.state_digest) == (5, "", "state-5")
    assert (jobs.uncommitted(before, 0).decided_step, jobs.uncommitted(before, 0).state_digest) == (0, "")


def lose(before: Job, attempts: int = 5) -> Job:
    return jobs.lost(before, "rank 0 lost", resume_step=5, attempts=attempts, now=NOW)


def test_an_attempt_is_fruitless_without_a_checkpoint_of_its_own() -> None:
    after = lose(job(decided_step=5, fruitless=1))
    assert (after.state, after.reason, after.fruitless) == (JOB_STATE_STOPPING, "rank 0 lost", 2)
    assert list(after.history) == ["epoch 3: rank 0 lost"]
    assert after.retry_at.ToDatetime(UTC) == NOW + timedelta(seconds=2)
    assert lose(job(decided_step=6, fruitless=1)).fruitless == 0


def test_the_last_fruitless_attempt_fails_the_job() -> None:
    assert lose(job(decided_step=5, fruitless=1), attempts=3).state == JOB_STATE_STOPPING
    after = lose(job(decided_step=5, fruitless=2), attempts=3)
    assert (after.state, after.fruitless, after.ended_at.ToDatetime(UTC)) == (JOB_STATE_FAILED, 3, NOW)
    assert after.reason.startswith("3 attempts without a new checkpoint, the last: rank 0 lost; ")
    assert list(after.history) == ["epoch 3: rank 0 lost", "epoch 3: failed"]


def end(before: Job, key: str = "a", attempts: int = 5) -> Job:
    ending = jobs.Ending(key, 2, "for a cause")
    return jobs.lost(before, "rank 0 lost", resume_step=5, attempts=attempts, now=NOW, ending=ending)


def test_attempts_in_a_row_that_end_in_the_same_way_fail_the_job_early() -> None:
    once = end(job(decided_step=5))
    assert (once.state, once.ending, once.alike) == (JOB_STATE_STOPPING, "a", 1)
    twice = end(once)
    assert (twice.state, twice.alike) == (JOB_STATE_FAILED, 2)
    assert twice.reason == "2 attempts in a row ended in the same way, for a cause; the last: rank 0 lost"
    assert end(job(decided_step=5), attempts=1).reason.startswith("the attempt ended, for a cause; ")


def test_another_end_and_a_checkpoint_begin_the_count_anew() -> None:
    once = end(job(decided_step=5))
    assert (end(once, "b").ending, end(once, "b").alike) == ("b", 1)
    assert (lose(once).ending, lose(once).alike) == ("", 0)
    fruitful = end(job(decided_step=6, ending="a", alike=1))
    assert (fruitful.state, fruitful.ending, fruitful.alike) == (JOB_STATE_STOPPING, "", 0)


@pytest.mark.parametrize(
    ("step", "changed"),
    [
        (lambda before: jobs.waiting(before, "why"), {"reason"}),
        (lambda before: jobs.requeued(before, "why"), {"state", "reason"}),
        (lambda before: jobs.met(before, "127.0.0.1:4000"), {"rendezvous"}),
        (lambda before: jobs.running(before), {"reason"}),
        (lambda before: jobs.reshaped(before, 3, "why"), {"wanted_data_parallel"}),
        (lambda before: jobs.stopping(before, "why"), {"state", "reason"}),
        (lambda before: jobs.also(before, "why"), set()),
        (lambda before: jobs.done(before, NOW), {"state", "reason", "ended_at", "fruitless"}),
        (lambda before: jobs.failed(before, "why", NOW), {"state", "reason", "ended_at"}),
        (lambda before: jobs.cancelled(before, NOW), {"state", "reason", "ended_at"}),
    ],
)
def test_a_step_changes_what_it_names_alone_and_nothing_of_a_job_that_has_ended(
    step: Callable[[Job], Job], changed: set[str]
) -> None:
    before = job(fruitless=2, reason="before", step=7)
    untouched = job(fruitless=2, reason="before", step=7)
    assert changes(before, step(before)) == changed
    assert before == untouched
    for state in (JOB_STATE_DONE, JOB_STATE_FAILED, JOB_STATE_CANCELLED):
        with pytest.raises(ValueError, match="has ended"):
            step(job(state=state))


def test_a_job_that_is_done_owes_no_attempt() -> None:
    after = jobs.done(job(fruitless=2, decided_step=20), NOW)
    assert (after.state, after.fruitless, after.history[-1]) == (JOB_STATE_DONE, 0, "epoch 3: done at step 20")


def test_the_history_keeps_the_newest_lines_and_cuts_long_ones() -> None:
    after = job()
    for number in range(40):
        after = jobs.also(after, f"{number} {'x' * 600}")
    assert [line.split()[2] for line in after.history] == [str(number) for number in range(8, 40)]
    assert {len(line.encode()) for line in after.history} == {500}


def test_the_backoff_doubles_from_one_second_to_a_minute() -> None:
    assert [jobs.BACKOFF.longest(fruitless) for fruitless in (0, 1, 2, 3, 6, 7, 8, 4000)] == [
        1,
        1,
        2,
        4,
        32,
        60,
        60,
        60,
    ]


def test_a_node_is_blamed_once_an_attempt_and_avoided_after_two() -> None:
    first = Job(name="jobs/a", epoch=1)
    once = jobs.blamed(jobs.blamed(first, "nodes/a"), "nodes/a")
    assert [(each.node, each.losses, each.epoch) for each in once.losses] == [("nodes/a", 1, 1)]
    assert (jobs.avoided(first), jobs.avoided(once), list(first.losses)) == ([], [], [])
    once.epoch = 2
    twice = jobs.blamed(jobs.blamed(once, "nodes/b"), "nodes/a")
    assert [(each.node, each.losses) for each in twice.losses] == [("nodes/b", 1), ("nodes/a", 2)]
    assert jobs.avoided(twice) == ["nodes/a"]


def slow(ratios: Mapping[int, float]) -> Pace:
    return Pace(step=20, stragglers=[Straggler(rank=rank, ratio=ratio) for rank, ratio in ratios.items()])


def shown(found: Job) -> list[tuple[int, str, float]]:
    return [(each.rank, each.node, each.ratio) for each in found.stragglers]


def test_a_straggler_is_named_once_an_attempt_and_known_after_it_has_caught_up() -> None:
    first = jobs.paced(job(), slow({2: 3.0}), {2: "nodes/b"})
    assert shown(first) == [(2, "nodes/b", 3.0)]
    assert len(first.history) == 1
    assert "rank 2 on nodes/b" in first.history[0]
    assert jobs.paced(first, slow({2: 4.0}), {2: "nodes/b"}) is first
    both = jobs.paced(first, slow({1: 2.0, 2: 4.0}), {1: "nodes/a", 2: "nodes/b"})
    assert shown(both) == [(1, "nodes/a", 2.0), (2, "nodes/b", 4.0)]
    assert len(both.history) == 2
    after = jobs.paced(both, slow({}), {})
    assert shown(after) == [(1, "nodes/a", 0.0), (2, "nodes/b", 0.0)]
    assert jobs.paced(after, slow({}), {}) is after
    again = jobs.paced(after, slow({2: 2.0}), {2: "nodes/b"})
    assert (shown(again)[1], again.history) == ((2, "nodes/b", 2.0), both.history)


def test_of_many_stragglers_those_that_are_slow_now_are_kept() -> None:
    many = dict.fromkeys(range(100, 112), 2.0)
    before = jobs.paced(job(), slow(many), dict.fromkeys(many, "nodes/a"))
    after = jobs.paced(before, slow(dict.fromkeys(range(12), 2.0)), dict.fromkeys(range(12), "nodes/b"))
    assert [each.rank for each in after.stragglers] == [*range(12), 100, 101, 102, 103]
    more = jobs.paced(after, slow(dict.fromkeys(range(20), 2.0)), dict.fromkeys(range(20), "nodes/b"))
    assert [each.rank for each in more.stragglers] == [*range(20)]


def test_only_the_newest_nodes_with_losses_are_kept() -> None:
    after = Job(name="jobs/a", epoch=1)
    for number in range(19):
        after = jobs.blamed(after, f"nodes/{number}")
    assert [each.node for each in after.losses] == [f"nodes/{number}" for number in range(3, 19)]


def audited(every: int = 10, **fields: Any) -> Job:
    """A job with an audit every so many steps."""
    made = job(**fields)
    made.spec.training = f'{{"audit_every":{every}}}'
    return made


@pytest.mark.parametrize(
    ("step", "decided", "covered"), [(9, 5, 0), (10, 5, 5), (10, 10, 10), (17, 15, 0), (20, 20, 20), (0, 20, 20)]
)
def test_a_checkpoint_is_covered_by_an_audit_that_was_passed_after_it(step: int, decided: int, covered: int) -> None:
    assert jobs.covered(audited(step=step, decided_step=decided)) == covered
    assert jobs.covered(audited(step=step, decided_step=decided, covered_step=3)) == max(covered, 3)


def test_without_audits_every_checkpoint_counts() -> None:
    assert jobs.covered(audited(0, step=9, decided_step=5)) == 5


def test_attempts_are_given_back_when_an_audit_covers_a_checkpoint() -> None:
    before = audited(step=8, fruitless=2)
    uncovered = jobs.committed(before, FIVE)
    assert (uncovered.fruitless, uncovered.covered_step) == (2, 0)
    crossed = jobs.progressed(uncovered, Crossed(10, 2.5, None, 0, 0))
    assert (crossed.fruitless, crossed.covered_step) == (0, 5)
    again = jobs.progressed(audited(step=10, decided_step=5, covered_step=5, fruitless=2), Crossed(11, 2.5, None, 0, 0))
    assert again.fruitless == 2
    at_once = jobs.committed(audited(step=10, fruitless=2), FIVE)
    assert (at_once.fruitless, at_once.covered_step) == (0, 5)


def test_an_audit_of_the_last_step_gives_no_attempt_back() -> None:
    before = audited(step=19, decided_step=20, fruitless=2)
    after = jobs.progressed(before, Crossed(20, 2.5, None, 0, 0))
    assert (after.fruitless, after.covered_step) == (2, 20)


def test_an_attempt_is_fruitless_without_a_checkpoint_that_an_audit_covers() -> None:
    assert lose(audited(step=9, decided_step=6, fruitless=1)).fruitless == 2
    assert lose(audited(step=10, decided_step=6, fruitless=1)).fruitless == 0


def test_states_in_doubt_are_left_by_the_next_attempt() -> None:
    after = jobs.doubted(job(decided_step=15, covered_step=12), 10)
    assert (after.trusted_step, after.decided_step, after.covered_step) == (10, 15, 10)
    assert jobs.doubted(after, 5).trusted_step == 5
    assert jobs.doubted(after, 12).trusted_step == 10
    started = jobs.starting(after, replace(RESUMED, step=5), [Seat(0, "nodes/a", "cpu")], moved=False)
    assert (started.HasField("trusted_step"), started.covered_step) == (False, 5)


def test_a_last_checkpoint_in_doubt_does_not_end_the_job() -> None:
    assert jobs.doubted(job(decided_step=20), 14).decided_step == 14
    assert jobs.doubted(job(decided_step=19), 14).decided_step == 19


def test_a_decision_that_is_taken_back_is_not_covered() -> None:
    assert jobs.uncommitted(job(decided_step=20, covered_step=20), 5).covered_step == 5
    assert jobs.uncommitted(job(decided_step=20, covered_step=3), 5).covered_step == 3
