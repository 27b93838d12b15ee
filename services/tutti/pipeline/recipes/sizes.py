"""Sizes of models by name.

Promises: a name never changes its numbers; another model gets another name.
"""

from dataclasses import dataclass
from typing import Literal

Size = Literal["tiny", "mini", "small", "medium", "large"]


@dataclass(frozen=True)
class ModelSize:
    """A decoder without its vocabulary and context."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int


SIZES: dict[Size, ModelSize] = {
    "tiny": ModelSize(width=32, layers=2, heads=2, kv_heads=2, hidden=96),
    "mini": ModelSize(width=64, layers=3, heads=4, kv_heads=4, hidden=160),
    "small": ModelSize(width=128, layers=4, heads=4, kv_heads=4, hidden=320),
    "medium": ModelSize(width=384, layers=8, heads=6, kv_heads=6, hidden=1024),
    "large": ModelSize(width=768, layers=12, heads=12, kv_heads=12, hidden=2048),
}
