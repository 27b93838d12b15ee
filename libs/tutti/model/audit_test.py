"""Audits come round to every leaf and every neighbour, and convict one faulty rank alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.model.audit import Audit, Pair, check_audits, judge_copies, judge_pairs, ring_audit, together
from tutti.model.chunks import Layout
from tutti.model.chunks_test import SMALL
from tutti.model.plan import Plan, Shape
from tutti.model.results import AuditFailed, Finding

LAYOUT = Layout(SMALL, 16_384)
PLAN = Plan(LAYOUT, Shape(3), 8)
LAST = 1000


def audit(plan: Plan, step: int, *, epoch: int = 1) -> Audit:
    found = ring_audit(plan, step, every=10, last=LAST, epoch=epoch)
    assert found is not None
    return found


def pairs(found: Audit) -> list[Pair]:
    return [(each.owner, each.witness) for each in found.leaves]


def test_every_rank_repeats_one_leaf_of_a_neighbour_at_each_audit() -> None:
    for step in range(10, 200, 10):
        found = audit(PLAN, step)
        assert [each.owner for each in found.leaves] == [0, 1, 2]
        assert sorted(each.witness for each in found.leaves) == [0, 1, 2]
        assert all(each.leaf in PLAN.leaves_of(each.owner) and each.owner != each.witness for each in found.leaves)
        assert all(found.owned(each.owner) == found.witnessed(each.witness) == each.leaf for each in found.leaves)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
def test_every_leaf_is_repeated_by_every_neighbour(ranks: int) -> None:
    plan = Plan(LAYOUT, Shape(ranks), 8)
    found = {
        (each.leaf, (each.witness - each.owner) % ranks)
        for step in range(10, 10 * 200, 10)
        for each in (ring_audit(plan, step, every=10, last=10**6, epoch=1) or Audit(())).leaves
    }
    shifts = {shift for shift in range(1, ranks) if 2 * shift != ranks} or {1}
    assert found == {(leaf, shift) for leaf in range(8) for shift in shifts}


def test_there_is_an_audit_at_the_last_step_and_none_between_two() -> None:
    assert ring_audit(PLAN, 9, every=10, last=LAST, epoch=1) is None
    assert ring_audit(PLAN, 10, every=0, last=10, epoch=1) is None
    assert ring_audit(PLAN, 17, every=10, last=17, epoch=1) is not None
    assert ring_audit(PLAN, 3, every=10, last=3, epoch=1) is not None


def test_the_next_epoch_meets_other_pairs_at_the_same_step() -> None:
    four = Plan(LAYOUT, Shape(4), 8)
    assert pairs(audit(four, 10, epoch=1)) != pairs(audit(four, 10, epoch=2))


def test_a_rank_alone_repeats_its_own_leaf() -> None:
    found = audit(Plan(LAYOUT, Shape(1), 8), 20)
    assert [(each.leaf, each.owner, each.witness) for each in found.leaves] == [(1, 0, 0)]


ring = st.tuples(st.integers(3, 12), st.integers(1, 20), st.integers(1, 5)).map(
    lambda drawn: pairs(audit(Plan(LAYOUT, Shape(drawn[0]), 16), 10 * drawn[1], epoch=drawn[2]))
)


@given(ring, st.data())
def test_one_rank_that_computes_all_wrong_is_convicted_and_nobody_else(found: list[Pair], data: st.DataObject) -> None:
    guilty = data.draw(st.integers(0, len(found) - 1))
    assert judge_pairs({pair: guilty not in pair for pair in found}) == Finding(convicted=(guilty,))


@given(ring, st.data())
def test_no_single_fault_convicts_an_innocent_rank(found: list[Pair], data: st.DataObject) -> None:
    """The faulty rank disagrees in any of its pairs; what does not convict it makes it a suspect."""
    guilty = data.draw(st.integers(0, len(found) - 1))
    wrong = data.draw(st.sets(st.sampled_from([pair for pair in found if guilty in pair]), min_size=1))
    verdict = judge_pairs({pair: pair not in wrong for pair in found})
    assert set(verdict.convicted) <= {guilty}
    assert guilty in verdict.ranks
    assert verdict == Finding(convicted=(guilty,)) or set(verdict.disagreements) == wrong


@given(ring, st.data())
def test_two_faulty_ranks_are_both_named(found: list[Pair], data: st.DataObject) -> None:
    guilty = data.draw(st.sets(st.integers(0, len(found) - 1), min_size=2, max_size=2))
    verdict = judge_pairs({pair: not guilty & set(pair) for pair in found})
    assert set(verdict.convicted) <= guilty <= set(verdict.ranks)


def test_two_faulty_ranks_of_four_are_both_named_and_nobody_is_convicted() -> None:
    found = [(0, 1), (1, 2), (2, 3), (3, 0)]
    for guilty in ({0, 1}, {0, 2}, {1, 2}, {0, 3}):
        verdict = judge_pairs({pair: not guilty & set(pair) for pair in found})
        assert verdict.convicted == ()
        assert guilty <= set(verdict.suspects)


def test_of_two_ranks_neither_is_convicted() -> None:
    assert judge_pairs({(0, 1): False, (1, 0): False}) == Finding(disagreements=((0, 1), (1, 0)))


def test_a_rank_that_contradicts_itself_is_convicted() -> None:
    assert judge_pairs({(0, 0): False}) == Finding(convicted=(0,))
    assert judge_copies([7], owner=0, kept=8) == Finding(convicted=(0,))
    assert judge_copies([7, 7], owner=1, kept=8) == Finding(convicted=(1,))


@given(st.integers(3, 9), st.data())
def test_who_differs_from_copies_that_agree_is_convicted_the_keeper_or_not(ranks: int, data: st.DataObject) -> None:
    owner, guilty = data.draw(st.integers(0, ranks - 1)), data.draw(st.integers(0, ranks - 1))
    held = [8 if rank == guilty else 7 for rank in range(ranks)]
    assert judge_copies(held, owner=owner, kept=held[owner]) == Finding(convicted=(guilty,))


def test_equal_copies_convict_nobody() -> None:
    assert not judge_copies([7, 7, 7], owner=1, kept=7)


def test_copies_of_two_ranks_or_of_two_halves_convict_nobody() -> None:
    assert judge_copies([7, 8], owner=0, kept=7) == Finding(disagreements=((0, 1),))
    assert judge_copies([7, 8, 7, 8], owner=2, kept=7) == Finding(disagreements=((2, 1), (2, 3)))


def test_a_convicted_rank_explains_its_disagreements_elsewhere() -> None:
    verdict = together([Finding((), ((0, 1), (2, 3))), Finding((1,)), Finding()])
    assert verdict == Finding((1,), ((2, 3),))
    assert (verdict.suspects, verdict.ranks) == ((2, 3), (1, 2, 3))


def records() -> list[list[int]]:
    truth = list(range(100, 100 + len(LAYOUT.chunks)))
    leaves = {each.leaf: 7 + each.leaf for each in audit(PLAN, 10).leaves}
    return [
        [
            leaves[audit(PLAN, 10).owned(rank)],
            leaves[audit(PLAN, 10).witnessed(rank)],
            *truth,
            *(100 + chunk.index for chunk in PLAN.chunks_of(rank)),
        ]
        for rank in PLAN.ranks
    ]


def failed(wrong: list[list[int]]) -> AuditFailed:
    with pytest.raises(AuditFailed) as caught:
        check_audits(PLAN, audit(PLAN, 10), 10, wrong)
    return caught.value


def test_equal_fingerprints_pass() -> None:
    check_audits(PLAN, audit(PLAN, 10), 10, records())


def test_a_wrong_parameter_is_named_by_step_chunk_and_rank() -> None:
    wrong = records()
    wrong[1][2 + 3] += 1
    error = failed(wrong)
    assert (error.step, error.finding) == (10, Finding(convicted=(1,)))
    assert "chunk 3 (block.0.matrices.1)" in str(error)


def test_a_rank_that_computes_wrong_leaves_is_named_with_the_leaves() -> None:
    wrong = records()
    wrong[1][0] += 1
    wrong[1][1] += 2
    error = failed(wrong)
    assert (error.step, error.finding) == (10, Finding(convicted=(1,)))
    assert f"leaf {audit(PLAN, 10).owned(1)}" in str(error)
