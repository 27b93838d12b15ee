"""The parameters of supervised fine-tuning."""

from dataclasses import dataclass

from tutti.model.spec import Recorded


@dataclass(frozen=True)
class SftParameters(Recorded):
    """`held_out` is the share of conversations that are measured and not trained on, drawn by their digests."""

    held_out: float = 0.05

    def __post_init__(self) -> None:
        self._check_types()
        self._require(held_out=(0 <= self.held_out < 1, "0 ≤ held_out < 1"))
