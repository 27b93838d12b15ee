"""The parameters of proximal policy optimisation with a value model (Schulman et al. 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from tutti.model.programs.grpo import GrpoParameters


@dataclass(frozen=True)
class PpoParameters(GrpoParameters):
    """As for grpo; an advantage is relative to the value model, so a prompt may have one answer alone.

    `discount` is that of later rewards; `trace` is lambda of generalised advantage estimation. `value_clip` is the half
    width of the interval around the old value that a value is credited for, and `value_weight` the factor of the loss
    of values.
    """

    discount: float = 1.0
    trace: float = 0.95
    value_clip: float = 0.2
    value_weight: float = 0.5

    LEAST_GROUP: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            discount=(0 < self.discount <= 1, "above 0, at most 1"),
            trace=(0 <= self.trace <= 1, "0 to 1"),
            value_clip=(self.value_clip > 0, "a positive number"),
            value_weight=(self.value_weight > 0, "a positive number"),
        )
