"""Steps whose loss or gradient is not finite: did the data and the parameters cause it, or a rank?

Of each rank with such a leaf the lowest is repeated by its neighbour in the ring (a rank alone repeats its own). The
verdict is a pure function of what all ranks shared. Does not import torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.model.audit import together
from tutti.model.results import Finding

NONE = -1
"""In place of a leaf: every leaf of the rank is finite."""


@dataclass(frozen=True)
class Examined:
    """A rank's own leaves, repeated: the lowest that is not finite with its fingerprint, and whether a loss came out
    otherwise than before.
    """

    leaf: int
    fingerprint: int
    contradicts: bool


@dataclass(frozen=True)
class Witnessed:
    """The same leaf, repeated by the neighbour."""

    fingerprint: int
    finite: bool


def neighbour(rank: int, ranks: int) -> int:
    """The rank that repeats a leaf of another; of one rank itself."""
    return (rank + 1) % ranks


def judge(examined: Sequence[Examined], witnessed: Sequence[Witnessed]) -> Finding:
    """The verdict; empty if the skip is confirmed. Both sequences are by rank; `witnessed` is what that rank repeated.

    Convicted is who contradicts itself, and whose leaf is finite on its neighbour. If the leaf is not finite there
    either, but has other bits, both are suspects.
    """
    found = []
    for rank, own in enumerate(examined):
        witness = neighbour(rank, len(examined))
        if own.contradicts or (own.leaf != NONE and witnessed[witness].finite):
            found.append(Finding(convicted=(rank,)))
        elif own.leaf != NONE and witnessed[witness].fingerprint != own.fingerprint:
            pair = Finding(convicted=(rank,)) if witness == rank else Finding(disagreements=((rank, witness),))
            found.append(pair)
    return together(found)


def words(examined: Sequence[Examined]) -> list[str]:
    """The ranks that have something to explain, for an error."""
    return [
        f"rank {rank} has a loss or gradient of leaf {own.leaf} that is not finite"
        if own.leaf != NONE
        else f"rank {rank} got another loss than before"
        for rank, own in enumerate(examined)
        if own.leaf != NONE or own.contradicts
    ]
