"""Metrics of a program after a step."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Metrics:
    """The sum of the losses of what is held out, and how many there are; other figures by name, such as accuracy."""

    nats: float
    tokens: int
    bits_per_byte: float | None = None
    named: Mapping[str, float] = field(default_factory=dict)
