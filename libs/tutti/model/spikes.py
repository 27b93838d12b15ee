"""Spikes: consecutive steps whose loss or gradient norm is far above that of the steps before. Does not import torch.

Promises: pure. The verdict about a step depends only on the `Watch`, which is a part of the state, and on numbers that
are the same on all ranks, so that a resumed attempt decides the same on any number of ranks. Numbers are compared with
a median, which a spike hardly moves. One step must be far above it; several in a row need less, because noise does not
repeat itself. `benchmarks/spikes.py` measures how many spikes are found, and how many steps are wrongly taken for one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Self

from tutti.model.spec import Recorded, SpecError

OFF, OBSERVE, SKIP, REWIND = "off", "observe", "skip", "rewind"
POLICIES = (OFF, OBSERVE, SKIP, REWIND)
WINDOW, FEWEST = 64, 24
"""The number of steps that others are compared with: at most and at least."""
LONGEST = 32
"""The most steps of a spike. A level that lasts longer is no spike: the steps after it are compared with each other."""
_CONTINUED = 1.18
"""A spike continues while the loss is above this number of medians, or the gradient norm above its limit."""
LOSS_LIMITS = ((2.5, 6.0), (1.25, 3.0), (1.18, 2.2))
"""The newest step, the newest two and the newest three are a spike if the least of their losses is above this number of
medians, and above the median by this number of standard deviations. One alone must be far above: in trainings
in which nothing went wrong, single steps had 1.8 medians.
"""
NORM_LIMIT = 10.0
"""The newest two steps are a spike if the least of their gradient norms is above this number of medians. One alone is
noise: in trainings in which nothing went wrong, single steps had 20 medians.
"""
_DEVIATION = 1.4826 / math.sqrt(2)
"""The standard deviation of normal noise in median changes from one step to the next, which a trend hardly moves."""


@dataclass(frozen=True)
class Spike:
    """Steps `first` to `last`; `loss` and `norm` are the highest of them, in medians of the steps before."""

    first: int
    last: int
    loss: float
    norm: float


@dataclass(frozen=True)
class Watch(Recorded):
    """The loss and gradient norm of the newest steps outside of spikes, and the spike that the newest step is in.

    `losses` and `norms` have one number a step, the newest last; `first`, `loss` and `norm` are those of the spike, and
    0 where there is none.
    """

    losses: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    first: int = 0
    loss: float = 0.0
    norm: float = 0.0

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a mapping that `to_dict` made and JSON carried. Raises SpecError."""
        try:
            numbers = {name: tuple(map(float, value[name])) for name in ("losses", "norms")}
            made = cls.from_dict({**value, **numbers, "loss": float(value["loss"]), "norm": float(value["norm"])})
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"Watch is {value!r}; expected the numbers of a watch: {error}") from error
        made._check_types()
        made._require(
            losses=(len(made.losses) <= WINDOW, f"at most {WINDOW} numbers"),
            norms=(len(made.norms) == len(made.losses), f"one a loss ({len(made.losses)})"),
            first=(made.first >= 0, "a step, or 0"),
        )
        if not all(map(math.isfinite, (*made.losses, *made.norms))):
            raise SpecError("Watch has numbers that are not finite; expected none")
        return made

    @property
    def in_spike(self) -> bool:
        """True if the newest step is part of a spike."""
        return self.first > 0

    def after(self, step: int, loss: float, norm: float) -> tuple["Watch", Spike | None]:
        """The watch after a step with a finite loss and gradient norm, and the spike that has ended, if one has.

        A spike ends before the first step outside of it, and after LONGEST steps.
        """
        newest = int(self._goes_on(loss, norm)) if self.in_spike else self._newest(loss, norm)
        if not newest:
            return Watch((*self.losses, loss)[-WINDOW:], (*self.norms, norm)[-WINDOW:]), self.until(step - 1)
        before = len(self.losses) - newest + 1
        losses, norms = self.losses[:before], self.norms[:before]
        own = (*self.losses[before:], loss), (*self.norms[before:], norm)
        after = Watch(
            losses,
            norms,
            self.first or step - newest + 1,
            max(self.loss, _ratio(max(own[0]), losses)),
            max(self.norm, _ratio(max(own[1]), norms)),
        )
        return (after, None) if step - after.first + 1 < LONGEST else (Watch(), after.until(step))

    def until(self, step: int) -> Spike | None:
        """The spike that the newest step, which is this one, is in; None if it is in none."""
        return Spike(self.first, step, self.loss, self.norm) if self.in_spike else None

    def _goes_on(self, loss: float, norm: float) -> bool:
        return loss > _CONTINUED * median(self.losses) or norm > NORM_LIMIT * median(self.norms)

    def _newest(self, loss: float, norm: float) -> int:
        """The number of newest steps, with the one that has these numbers, that are a spike; 0 for none."""
        for newest in range(len(LOSS_LIMITS), 0, -1):
            before = self.losses[: max(len(self.losses) - newest + 1, 0)]
            if len(before) < FEWEST:
                continue
            (ratio, deviations), middle = LOSS_LIMITS[newest - 1], median(before)
            least = min((*self.losses[len(before) :], loss))
            if least > ratio * middle and least > middle + deviations * _noise(before):
                return newest
        calm = self.norms[:-1]
        return 2 if len(calm) >= FEWEST and min(self.norms[-1], norm) > NORM_LIMIT * median(calm) else 0


def _noise(losses: Sequence[float]) -> float:
    """The standard deviation of the noise of losses."""
    return _DEVIATION * median(abs(after - before) for before, after in pairwise(losses))


def _ratio(highest: float, before: Sequence[float]) -> float:
    """A number in medians of those before; 0 where the median is 0."""
    middle = median(before)
    return highest / middle if middle > 0 else 0.0
