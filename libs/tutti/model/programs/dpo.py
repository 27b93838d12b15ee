"""The parameters of direct preference optimisation."""

from dataclasses import dataclass

from tutti.model.heldout import HeldOut
from tutti.model.parameter import parameter


@dataclass(frozen=True)
class DpoParameters(HeldOut):
    """`beta` is the weight of the divergence from the reference (Rafailov et al. 2023, equation 7)."""

    beta: float = parameter(0.1, "strength of the penalty for deviating from the initial checkpoint", gt=0)
