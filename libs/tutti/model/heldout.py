"""The parameter of programs that measure on samples which they do not train on."""

from dataclasses import dataclass

from tutti.model.parameter import parameter
from tutti.model.spec import Recorded


@dataclass(frozen=True)
class HeldOut(Recorded):
    """Held-out samples are drawn by digests: conversations by their own, pairs by that of their prompt."""

    held_out: float = parameter(0.05, "share of samples held out for validation", ge=0, lt=1)

    def __post_init__(self) -> None:
        self._check_types()
