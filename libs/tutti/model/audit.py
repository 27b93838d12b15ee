"""The two audits of a step: do ranks compute with the keepers' parameters, and does a leaf come out twice the same?

Every `every` steps one leaf, in rotation, is computed by its owner and by a witness (with one rank, twice by it), and
every rank shares a fingerprint of each chunk it computes with. Does not import torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.model.plan import Plan
from tutti.model.results import LeafAuditFailed, ParameterAuditFailed


@dataclass(frozen=True)
class Audit:
    """The audited leaf and the rank that computes it."""

    leaf: int
    owner: int
    witness: int


def leaf_audit(plan: Plan, step: int, every: int) -> Audit | None:
    """The audit of a step, None when it has none. The leaf rotates, and the witness with every turn over all leaves."""
    if every <= 0 or step % every:
        return None
    turn, leaf = divmod(step // every - 1, plan.leaves)
    owner = next(rank for rank in plan.ranks if leaf in plan.leaves_of(rank))
    others = [rank for rank in plan.ranks if rank != owner] or [owner]
    return Audit(leaf, owner, others[turn % len(others)])


def check_audits(plan: Plan, audit: Audit, step: int, records: Sequence[Sequence[int]]) -> None:
    """A record a rank: [owner's leaf, witness's leaf, held chunks …, kept chunks …]. Raises the audits' errors."""
    chunks = plan.layout.chunks
    kept = [value for record in records for value in record[2 + len(chunks) :]]
    for chunk, truth in zip(chunks, kept, strict=True):
        for rank, record in enumerate(records):
            if record[2 + chunk.index] != truth:
                raise ParameterAuditFailed(step, chunk.index, chunk.name, rank)
    if records[audit.owner][0] != records[audit.witness][1]:
        raise LeafAuditFailed(step, audit.leaf, (audit.owner, audit.witness))
