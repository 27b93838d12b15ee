"""The input of one leaf, as the model needs it: a protocol of numpy arrays, met by the corpus's packed batches.

Shapes and types are checked once, here. Does not import torch.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tutti.model.spec import ModelSpec


class LeafBatch(Protocol):
    """Fixed rows of packed tokens."""

    @property
    def tokens(self) -> npt.NDArray[Any]:
        """Integers [rows, length + 1]: position t predicts t + 1."""

    @property
    def documents(self) -> npt.NDArray[Any]:
        """Integers [rows, length + 1]: which document of the row a token belongs to."""

    @property
    def valid(self) -> npt.NDArray[Any]:
        """Booleans [rows, length]: whether the prediction made at position t counts."""


class BatchError(ValueError):
    """A batch does not fit the model."""


@dataclass(frozen=True)
class CheckedBatch:
    """A batch whose shapes, types and token range are right; `leaf` is the batch as it was given."""

    tokens: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]
    leaf: LeafBatch


def checked(batch: LeafBatch, model: ModelSpec, rows: int, what: str, *, length: int = 0) -> CheckedBatch:
    """`what` names the batch in errors; a `length` of 0 is the model's context. Raises BatchError."""
    length = length or model.context
    wide, narrow = (rows, length + 1), (rows, length)
    for name, array, shape in (
        ("tokens", batch.tokens, wide),
        ("documents", batch.documents, wide),
        ("valid", batch.valid, narrow),
    ):
        if array.shape != shape:
            raise BatchError(f"{what}: {name} is {list(array.shape)}; expected {list(shape)}")
        if name == "valid" and array.dtype != np.bool_:
            raise BatchError(f"{what}: valid is {array.dtype}; expected bool")
        if name != "valid" and array.dtype.kind not in "iu":
            raise BatchError(f"{what}: {name} is {array.dtype}; expected integers")
    tokens = np.asarray(batch.tokens, dtype=np.int64)
    if tokens.size and not (tokens.min() >= 0 and tokens.max() < model.vocabulary):
        seen = f"{tokens.min()} … {tokens.max()}"
        raise BatchError(f"{what}: tokens are {seen}; expected 0 … {model.vocabulary - 1}: was it another tokenizer?")
    return CheckedBatch(tokens, np.asarray(batch.documents, dtype=np.int64), np.asarray(batch.valid), batch)
