"""A batch that does not fit is refused before anything is computed with it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tutti.model.batch import BatchError, checked
from tutti.model.chunks_test import SMALL


@dataclass(frozen=True)
class Rows:
    tokens: npt.NDArray[Any] = field(default_factory=lambda: np.zeros((2, 33), dtype=np.uint16))
    documents: npt.NDArray[Any] = field(default_factory=lambda: np.zeros((2, 33), dtype=np.int32))
    valid: npt.NDArray[Any] = field(default_factory=lambda: np.ones((2, 32), dtype=bool))


def test_unsigned_tokens_are_taken() -> None:
    ready = checked(Rows(), SMALL, 2, "leaf 0")
    assert [str(array.dtype) for array in (ready.tokens, ready.documents, ready.valid)] == ["int64", "int64", "bool"]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (Rows(tokens=np.zeros((2, 32), dtype=np.int64)), r"leaf 3: tokens is \[2, 32\]; expected \[2, 33\]"),
        (Rows(documents=np.zeros((1, 33), dtype=np.int64)), r"documents is \[1, 33\]"),
        (Rows(valid=np.ones((2, 33), dtype=bool)), r"valid is \[2, 33\]"),
        (Rows(valid=np.ones((2, 32), dtype=np.int64)), "valid is int64; expected bool"),
        (Rows(tokens=np.zeros((2, 33), dtype=np.float32)), "tokens is float32; expected integers"),
        (Rows(tokens=np.full((2, 33), 320)), r"tokens are 320 … 320; expected 0 … 319"),
        (Rows(tokens=np.full((2, 33), -1)), r"tokens are -1 … -1"),
    ],
)
def test_a_batch_of_another_model_is_named(batch: Rows, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        checked(batch, SMALL, 2, "leaf 3")
