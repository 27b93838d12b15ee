"""The parameters of direct preference optimisation."""

from dataclasses import dataclass

from tutti.model.spec import Recorded


@dataclass(frozen=True)
class DpoParameters(Recorded):
    """`held_out` is the share of prompts whose pairs are measured and not trained on, drawn by their digests.

    `beta` is the weight of the divergence from the reference (Rafailov et al. 2023, equation 7).
    """

    held_out: float = 0.05
    beta: float = 0.1

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            held_out=(0 <= self.held_out < 1, "0 ≤ held_out < 1"),
            beta=(self.beta > 0, "a positive number"),
        )
