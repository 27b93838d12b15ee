"""The parameters of proximal policy optimisation with a value model (Schulman et al. 2017)."""

from dataclasses import dataclass

from tutti.model.parameter import MOST, parameter
from tutti.model.programs.grpo import GrpoParameters


@dataclass(frozen=True)
class PpoParameters(GrpoParameters):
    """As for grpo; an advantage is relative to the value model, so a prompt may have one answer alone."""

    group: int = parameter(4, "answers per prompt", ge=1, lt=MOST)
    discount: float = parameter(1.0, "discount of later rewards, per token", gt=0, le=1)
    trace: float = parameter(0.95, "lambda of the advantages (GAE): 0 uses values only, 1 rewards only", ge=0, le=1)
    value_clip: float = parameter(0.2, "half width of the clipping interval around an old value", gt=0)
    value_weight: float = parameter(0.5, "weight of the value loss", gt=0)
