"""Fingerprints of tensors: XXH3, for audits inside a run. Names of stored states are digests, elsewhere.

A fingerprint is of the bits: -0.0 and 0.0 differ, and so do two NaNs.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
import xxhash
from torch import Tensor


def as_bytes(tensor: Tensor) -> npt.NDArray[np.uint8]:
    """The bytes of a contiguous tensor, without a copy when it lies in host memory."""
    return tensor.detach().cpu().view(torch.uint8).numpy()


def fingerprint(data: npt.NDArray[np.uint8]) -> int:
    """63 bits, so that it travels as an int64."""
    return xxhash.xxh3_64_intdigest(data.data) >> 1


def fingerprints(vector: Tensor, lengths: Iterable[int]) -> list[int]:
    """One fingerprint a consecutive slice of a flat vector."""
    data, size, start, found = as_bytes(vector), vector.element_size(), 0, []
    for length in lengths:
        found.append(fingerprint(data[start * size : (start + length) * size]))
        start += length
    return found
