"""The parameters of supervised fine-tuning."""

from dataclasses import dataclass

from tutti.model.heldout import HeldOut


@dataclass(frozen=True)
class SftParameters(HeldOut):
    """It has no others."""
