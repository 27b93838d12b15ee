"""The audits of a step: do ranks compute with equal parameters, and does a leaf come out the same on two ranks?

At each audit every rank recomputes one leaf of a neighbour in a ring (a rank alone recomputes its own), and shares a
fingerprint of each chunk that it computes with. The verdict is a pure function of what was shared, so all ranks reach
the same one. It convicts for one faulty rank at a time; what two ranks disagree about and nothing else settles makes
both suspects. Does not import torch.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutti.model.plan import Plan
from tutti.model.results import AuditFailed, Finding

Pair = tuple[int, int]
"""A rank, and the witness that repeated its computation."""


@dataclass(frozen=True)
class LeafAudit:
    """A leaf that `owner` computes in the step, and `witness` repeats."""

    leaf: int
    owner: int
    witness: int


@dataclass(frozen=True)
class Audit:
    """The leaves that are audited in one step: of each rank one, in the order of the ranks."""

    leaves: tuple[LeafAudit, ...]

    def owned(self, rank: int) -> int:
        """The audited leaf that a rank computes anyway."""
        return self.leaves[rank].leaf

    def witnessed(self, rank: int) -> int:
        """The leaf that a rank repeats."""
        return next(each.leaf for each in self.leaves if each.witness == rank)


def ring_audit(plan: Plan, step: int, *, every: int, last: int, epoch: int) -> Audit | None:
    """The audit of a step, None when it has none: there is one every `every` steps, and after the `last` one.

    The leaf rotates with each audit. So does the neighbour, and with each epoch: a job that resumes before an audit
    meets other pairs there. The ring never has cycles of two, in which nobody could be convicted, unless there are two
    ranks.
    """
    if every <= 0 or (step % every and step != last):
        return None
    ranks, most = len(plan.ranks), max(len(plan.leaves_of(rank)) for rank in plan.ranks)
    shifts = [shift for shift in range(1, ranks) if 2 * shift != ranks] or [ranks - 1]
    turn, at = divmod(-(-step // every) - 1, most)
    shift = shifts[(turn + at + epoch) % len(shifts)]

    def of(rank: int) -> LeafAudit:
        own = plan.leaves_of(rank)
        return LeafAudit(own[at % len(own)], rank, (rank + shift) % ranks)

    return Audit(tuple(of(rank) for rank in plan.ranks))


def judge_pairs(agreed: Mapping[Pair, bool]) -> Finding:
    """The verdict on ranks that computed the same things in pairs; `agreed` says of each pair whether they agree.

    Convicted is who disagrees with itself, and who disagrees with two or more partners and agrees with none, if every
    other pair of these partners agrees.
    """
    disagreed = [pair for pair, agree in agreed.items() if not agree]

    def partners(rank: int, pairs: Iterable[Pair]) -> set[int]:
        return {other for pair in pairs if rank in pair for other in pair if other != rank}

    def others_agree(partner: int, rank: int) -> bool:
        others = [agree for pair, agree in agreed.items() if partner in pair and rank not in pair]
        return bool(others) and all(others)

    convicted = {one for one, other in disagreed if one == other}
    for rank in {rank for pair in disagreed for rank in pair}:
        doubters = partners(rank, disagreed)
        agrees = any(agree for pair, agree in agreed.items() if rank in pair and pair[0] != pair[1])
        if len(doubters) > 1 and not agrees and all(others_agree(partner, rank) for partner in doubters):
            convicted.add(rank)
    return _finding(convicted, disagreed)


def judge_copies(held: Sequence[int], *, owner: int, kept: int) -> Finding:
    """The verdict on copies of one chunk: `held` is what each rank computes with, `kept` what its owner stores.

    Convicted is an owner that does not compute with what it stores, and who differs from two or more that agree, the
    owner or not.
    """
    if held[owner] != kept:
        return Finding(convicted=(owner,))
    if all(value == kept for value in held):
        return Finding()
    groups = Counter(held)
    agreeing = [value for value, number in groups.items() if number > 1]
    if len(agreeing) == 1:
        return Finding(convicted=tuple(rank for rank, value in enumerate(held) if value != agreeing[0]))
    return _finding(set(), [(owner, rank) for rank, value in enumerate(held) if value != held[owner]])


def check_audits(plan: Plan, audit: Audit, step: int, records: Sequence[Sequence[int]]) -> None:
    """A record a rank: [its leaf, the leaf that it repeated, held chunks …, kept chunks …]. Raises AuditFailed."""
    agreed, seen, told = dict[Pair, bool](), list[Finding](), list[str]()
    for each in audit.leaves:
        pair = each.owner, each.witness
        agreed[pair] = records[each.owner][0] == records[each.witness][1]
        if not agreed[pair]:
            told.append(f"{_both(pair)} got different gradients for leaf {each.leaf}")
    seen.append(judge_pairs(agreed))
    chunks = plan.layout.chunks
    kept = [value for record in records for value in record[2 + len(chunks) :]]
    for chunk, truth in zip(chunks, kept, strict=True):
        held, owner = [record[2 + chunk.index] for record in records], plan.owner(chunk.index)
        found = judge_copies(held, owner=owner, kept=truth)
        if found:
            seen.append(found)
            told.append(f"{_ranks(found.ranks)} of {len(held)} hold other bits in chunk {chunk.index} ({chunk.name})")
    finding = together(seen)
    if finding:
        raise AuditFailed(step, finding, told)


def together(findings: Iterable[Finding]) -> Finding:
    """One verdict from several: who is convicted by one of them explains its disagreements in the others."""
    found = [each for each in findings if each]
    convicted = {rank for each in found for rank in each.convicted}
    return _finding(convicted, [pair for each in found for pair in each.disagreements])


def _finding(convicted: set[int], disagreed: Iterable[Pair]) -> Finding:
    unexplained = dict.fromkeys(pair for pair in disagreed if not convicted & set(pair))
    return Finding(tuple(sorted(convicted)), tuple(unexplained))


def _both(pair: Pair) -> str:
    return f"rank {pair[0]}, twice," if pair[0] == pair[1] else f"ranks {pair[0]} and {pair[1]}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(map(str, ranks))}"
