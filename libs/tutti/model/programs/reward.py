"""The parameters of reward learning."""

from dataclasses import dataclass

from tutti.model.spec import Recorded

POOLINGS = ("mean",)


@dataclass(frozen=True)
class RewardParameters(Recorded):
    """`held_out` is the share of prompts whose pairs are measured and not trained on, drawn by their digests.

    `pooling` is how the hidden states of an answer become the one that the scalar head reads.
    """

    held_out: float = 0.05
    pooling: str = "mean"

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            held_out=(0 <= self.held_out < 1, "0 ≤ held_out < 1"),
            pooling=(self.pooling in POOLINGS, f"one of {', '.join(POOLINGS)}"),
        )
