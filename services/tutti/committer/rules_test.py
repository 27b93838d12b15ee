"""The committer's pure rules: order of decisions, lines, retention."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.errors import AlreadyExists, Refused, StaleEpoch
from tutti.checkpoints import example_test as example
from tutti.committer.decision import Progress, ShardState, next_step
from tutti.committer.epochs import (
    OpenEpoch,
    ResumePoint,
    branch,
    goes_back,
    history,
    is_repeated,
    require_same_job,
    transition_used,
)
from tutti.committer.retention import CheckpointAge, reasons_to_keep

DONE = ShardState.VERIFIED
progress = st.builds(Progress, st.integers(1, 30), st.integers(0, 2), st.sampled_from(list(ShardState)))


def due(step: int) -> bool:
    return step % 5 == 0


def test_a_step_waits_for_every_rank_and_every_reader() -> None:
    one = next_step([Progress(5, 0, DONE)], base=0, ranks=2, due=due)
    assert one is not None
    assert (one.ready, one.waits_for) == (False, "ranks [1] have not reported")
    two = next_step([Progress(5, 0, DONE), Progress(5, 1, ShardState.CLAIMED)], base=0, ranks=2, due=due)
    assert two is not None
    assert two.waits_for == "shards of ranks [1] are not verified"


def test_a_later_step_waits_for_the_due_one_before_it() -> None:
    found = next_step([Progress(10, 0, DONE)], base=0, ranks=1, due=due)
    assert found is not None
    assert (found.step, found.waits_for) == (5, "no rank has reported step 5")


def test_a_damaged_step_holds_up_nobody() -> None:
    found = next_step([Progress(5, 0, ShardState.FAILED), Progress(10, 0, DONE)], base=0, ranks=1, due=due)
    assert found is not None
    assert (found.step, found.ready) == (10, True)


@given(st.lists(progress), st.integers(0, 30), st.integers(1, 3))
def test_what_is_ready_is_whole_verified_above_the_base_and_next(shards: list[Progress], base: int, ranks: int) -> None:
    unique = list({(shard.step, shard.rank): shard for shard in shards if shard.rank < ranks}.values())
    found = next_step(unique, base=base, ranks=ranks, due=due)
    if found is None or not found.ready:
        return
    assert found.step > base
    states = {shard.rank: shard.state for shard in unique if shard.step == found.step}
    assert states == dict.fromkeys(range(ranks), DONE)
    for earlier in range(base + 1, found.step):
        of_step = [shard.state for shard in unique if shard.step == earlier]
        assert ShardState.FAILED in of_step or (not of_step and not due(earlier))


OPEN = OpenEpoch(epoch=3, line=0, training_digest="t", dataset_digest="d", request_digest="r")


def test_epochs_only_grow() -> None:
    assert not is_repeated("jobs/j", 1, "x", None)
    assert not is_repeated("jobs/j", 4, "x", OPEN)
    assert is_repeated("jobs/j", 3, "r", OPEN)
    with pytest.raises(StaleEpoch, match="epoch 2 was asked for, 3 is open"):
        is_repeated("jobs/j", 2, "r", OPEN)
    with pytest.raises(AlreadyExists, match="another body"):
        is_repeated("jobs/j", 3, "other", OPEN)


def test_another_training_or_dataset_is_refused() -> None:
    require_same_job("jobs/j", OPEN, training_digest="t", dataset_digest="d")
    for training, dataset, reason in (("x", "d", "ANOTHER_TRAINING"), ("t", "x", "ANOTHER_DATASET")):
        with pytest.raises(Refused) as refused:
            require_same_job("jobs/j", OPEN, training_digest=training, dataset_digest=dataset)
        assert refused.value.reason == reason


def test_a_job_that_goes_back_leaves_out_only_what_it_reads_again() -> None:
    job = example.training(steps=50)
    back = job.without(31, 34)
    assert goes_back(back, job, 30)
    assert goes_back(back.without(9, 9).without(9, 12), back, 8)
    assert not any(goes_back(back, job, trusted) for trusted in (None, 31))
    assert not goes_back(back.without(9, 9), job, 30)
    assert not any(goes_back(other, back, 0) for other in (back, job, job.without(31, 33), job.without(30, 34)))
    assert not goes_back(replace(back, audit_every=7), job, 30)


def test_another_shape_needs_a_transition_by_name() -> None:
    resume = ResumePoint(0, 5, "checkpoints/j/0/5", "shape-a")
    name = "transitions/j/1"
    assert transition_used(resume, shape_digest="shape-a", transition="") == ""
    assert transition_used(resume, shape_digest="shape-a", transition=name) == ""
    assert transition_used(resume, shape_digest="shape-b", transition=name) == name
    assert transition_used(ResumePoint(), shape_digest="shape-b", transition="") == ""
    with pytest.raises(Refused, match="record a transition"):
        transition_used(resume, shape_digest="shape-b", transition="")


def test_a_line_is_left_when_its_names_are_taken_or_its_past_is_gone() -> None:
    stay = branch(ResumePoint(0, 10), line=0, from_step=0, lines=1, taken=[5, 10], doubted=False)
    assert (stay.line, stay.is_new) == (0, False)
    damaged = branch(ResumePoint(0, 5), line=0, from_step=0, lines=1, taken=[5, 10], doubted=False)
    assert (damaged.line, damaged.parent_line, damaged.from_step, damaged.is_new) == (1, 0, 5, True)
    past = branch(ResumePoint(0, 5), line=1, from_step=10, lines=2, taken=[], doubted=False)
    assert (past.line, past.parent_line, past.from_step) == (2, 0, 5)
    assert branch(ResumePoint(0, 10), line=0, from_step=0, lines=1, taken=[10], doubted=True).line == 1


def test_history_follows_parents_and_never_past_a_branch() -> None:
    lines = [(0, 0, 0), (1, 0, 20), (2, 1, 30), (3, 0, 5)]
    assert history(lines, 0) == [(0, None)]
    assert history(lines, 2) == [(2, None), (1, 30), (0, 20)]
    assert history(lines, 3) == [(3, None), (0, 5)]


checkpoints = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 40), st.booleans()), unique_by=lambda each: each[:2], max_size=20
).map(lambda found: [CheckpointAge(line, step, f"{line}/{step}", 1, pinned) for line, step, pinned in found])


@given(checkpoints, st.integers(1, 5), st.sets(st.tuples(st.integers(0, 2), st.integers(1, 40))))
def test_the_last_ones_pinned_ones_and_referenced_ones_stay(
    committed: list[CheckpointAge], keep_last: int, points: set[tuple[int, int]]
) -> None:
    found = reasons_to_keep(
        committed, keep_last=keep_last, branch_points=points, in_use={"0/7": ["a"]}, audited=lambda step: step
    )
    kept = [each for each, reasons in found.items() if reasons]
    assert list(found) == sorted(set(committed))
    for each in set(committed) - set(kept):
        assert not each.pinned
        assert (each.line, each.step) not in points
        assert each.name != "0/7"
        assert sum(other.line == each.line and other.step > each.step for other in kept) >= keep_last


@given(checkpoints, st.integers(0, 40))
def test_the_newest_before_the_decay_stays(committed: list[CheckpointAge], until: int) -> None:
    found = reasons_to_keep(
        committed, keep_last=1, branch_points=set(), in_use={}, audited=lambda step: step, steady_until=until
    )
    for line in {each.line for each in committed}:
        steady = [each for each in committed if each.line == line and each.step <= until]
        assert not steady or found[max(steady, key=lambda each: each.step)]


def test_each_reason_why_a_checkpoint_stays_is_named() -> None:
    found = reasons_to_keep(
        [CheckpointAge(0, step, f"0/{step}", 1, pinned=step == 15) for step in range(5, 45, 5)],
        keep_last=1,
        branch_points={(0, 20)},
        in_use={"0/25": ["in use by releases/a"], "0/40": ["in use by samples/a"]},
        audited=lambda step: step // 30 * 30,
        steady_until=12,
    )
    reasons = {each.step: kept for each, kept in found.items()}
    assert [step for step, kept in reasons.items() if not kept] == [5, 35]
    words = {10: "decays", 15: "pinned", 20: "branches", 25: "releases/a", 30: "audit"}
    assert all(word in kept for step, word in words.items() for (kept,) in [reasons[step]])
    assert len(reasons[40]) == 2


def test_keeping_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        reasons_to_keep([], keep_last=0, branch_points=set(), in_use={}, audited=lambda step: step)
