"""The parameters of reward learning."""

from dataclasses import dataclass

from tutti.model.heldout import HeldOut
from tutti.model.parameter import parameter


@dataclass(frozen=True)
class RewardParameters(HeldOut):
    """`pooling` is how the hidden states of an answer become the one that the scalar head reads."""

    pooling: str = parameter("mean", "pooling of an answer's states for the scalar head", choices=("mean",))
