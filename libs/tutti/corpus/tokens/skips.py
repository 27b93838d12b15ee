"""Skips: ledgers that leave out the data of some steps.

Promises: pure. The steps after a gap read what the ledger has after it, and no other sample is read twice or lost: each
dataset is read on from where the steps before the gap, and those inside it, would have left it.
"""

from __future__ import annotations

from dataclasses import replace

from tutti.corpus.tokens.ledger import Ledger
from tutti.records.errors import InvalidSpan


def without(ledger: Ledger, first: int, last: int) -> Ledger:
    """The ledger in which step `first` reads what step `last` + 1 would have read, and so on. Steps count from 1.

    In a mixture, the pattern of its datasets begins anew at `first`. Raises InvalidSpan for no such steps.
    """
    if not 1 <= first <= last:
        raise InvalidSpan(
            f"cannot leave out steps {first} to {last}; expected a first step from 1, and a last one after it"
        )
    begin, end = first - 1, last
    span = ledger.span_at(end)
    shares = tuple(replace(share, start=start) for share, start in zip(span.datasets, span.starts_at(end), strict=True))
    later = (each for each in ledger.spans if each.from_step > end)
    return replace(
        ledger,
        spans=(
            *(each for each in ledger.spans if each.from_step < begin),
            replace(span, from_step=begin, datasets=shares),
            *(replace(each, from_step=each.from_step - (end - begin)) for each in later),
        ),
    )


def until(ledger: Ledger, step: int) -> Ledger:
    """The ledger of a state after `step` steps: without spans that none of them has read."""
    return replace(ledger, spans=tuple(each for each in ledger.spans if each.from_step < max(step, 1)))
