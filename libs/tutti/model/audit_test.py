"""Audits come round to every leaf and every witness, and say exactly what is wrong."""

import pytest

from tutti.model.audit import check_audits, leaf_audit
from tutti.model.chunks import Layout
from tutti.model.chunks_test import SMALL
from tutti.model.plan import Plan, Shape
from tutti.model.results import LeafAuditFailed, ParameterAuditFailed

LAYOUT = Layout(SMALL, 16_384)
PLAN = Plan(LAYOUT, Shape(3), 8)


def records() -> list[list[int]]:
    truth = list(range(100, 100 + len(LAYOUT.chunks)))
    return [[7, 7, *truth, *(100 + chunk.index for chunk in PLAN.chunks_of(rank))] for rank in PLAN.ranks]


def test_every_leaf_is_witnessed_by_every_other_rank() -> None:
    audits = [leaf_audit(PLAN, step, 10) for step in range(10, 10 * 16 + 1, 10)]
    found = {(audit.leaf, audit.owner, audit.witness) for audit in audits if audit}
    assert len(found) == 16
    assert all(leaf in PLAN.leaves_of(owner) and owner != witness for leaf, owner, witness in found)


def test_steps_between_audits_have_none() -> None:
    assert leaf_audit(PLAN, 9, 10) is None
    assert leaf_audit(PLAN, 10, 0) is None


def test_a_rank_alone_is_its_own_witness() -> None:
    audit = leaf_audit(Plan(LAYOUT, Shape(1), 8), 4, 2)
    assert audit is not None
    assert (audit.leaf, audit.owner, audit.witness) == (1, 0, 0)


def test_equal_fingerprints_pass() -> None:
    audit = leaf_audit(PLAN, 10, 10)
    assert audit is not None
    check_audits(PLAN, audit, 10, records())


def test_a_wrong_parameter_is_named_by_step_chunk_and_rank() -> None:
    audit, wrong = leaf_audit(PLAN, 10, 10), records()
    assert audit is not None
    wrong[1][2 + 3] += 1
    with pytest.raises(ParameterAuditFailed, match=r"step 10: rank 1 .* chunk 3 \(block\.0\.matrices\.1\)") as caught:
        check_audits(PLAN, audit, 10, wrong)
    assert (caught.value.step, caught.value.chunk, caught.value.rank) == (10, 3, 1)


def test_a_leaf_that_came_out_twice_differently_is_named_with_both_ranks() -> None:
    audit, wrong = leaf_audit(PLAN, 30, 10), records()
    assert audit is not None
    wrong[audit.witness][1] += 1
    with pytest.raises(LeafAuditFailed, match="ranks 1 and 0 got different gradients for leaf 2"):
        check_audits(PLAN, audit, 30, wrong)
