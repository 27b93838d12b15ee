"""Holders: which node reports about an epoch of a job, and what it may report.

Promises: a node that held no rank of an epoch reports nothing about it. A sealed epoch adds nothing but the iterations
that its decided steps cover, since the next epoch makes all others again.
"""

from tutti.chassis.errors import PermissionDenied, Unavailable, declare
from tutti.chassis.store.unit import Unit
from tutti.committer.records import EpochRow, Records
from tutti.model.training import Training

NO_RANK, NOT_ITS_ITERATION = "NO_RANK", "NOT_ITS_ITERATION"
declare(
    {
        NO_RANK: "the node held no rank of the job in the epoch that it reports about",
        NOT_ITS_ITERATION: "the epoch makes no such iteration on this line, or was sealed before it was decided",
    },
    code=PermissionDenied.code,
)


def require(records: Records, unit: Unit, open_: EpochRow, epoch: int, node: str) -> None:
    """Raise PermissionDenied unless the node held a rank of the epoch, which was opened. Raises CorruptRow."""
    if not records.held(unit, open_, epoch, node):
        raise PermissionDenied(f"{node} held no rank of jobs/{open_.job} in epoch {epoch}", reason=NO_RANK)


def check(records: Records, unit: Unit, job: str, *, epoch: int, node: str, line: int, iteration: int | None) -> bool:
    """Return true if the epoch is sealed; epoch 0 is the open one, of which an agent of an earlier version reports.

    Raises PermissionDenied for a node without a rank and for an iteration that is not the epoch's, Unavailable for an
    epoch that is not yet known, CorruptRow.
    """
    open_ = records.epoch(unit, job)
    if open_ is None or epoch > open_.epoch:
        raise Unavailable(f"epoch {epoch} of jobs/{job} is not known yet: report again")
    named = epoch or open_.epoch
    require(records, unit, open_, named, node)
    if iteration is not None:
        first, last = records.steps_of(unit, open_, named, line)
        _require_iteration(open_, named, iteration, first=first if epoch else 0, last=last)
    return named != open_.epoch


def _require_iteration(open_: EpochRow, epoch: int, iteration: int, *, first: int, last: int) -> None:
    """Raise PermissionDenied unless the steps of the iteration are after `first`, up to `last`."""
    updates = Training.from_json(open_.training).updates
    own = range(first // updates, last // updates) if updates else range(0)
    if iteration not in own:
        made = f"made iterations {own[0]} to {own[-1]}" if own else "made none"
        raise PermissionDenied(
            f"iteration {iteration} is none of epoch {epoch} of jobs/{open_.job}, which {made} of this line",
            reason=NOT_ITS_ITERATION,
        )
