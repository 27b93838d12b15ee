"""The tensors of safetensors files: found by their headers, read in pieces as float32.

Promises: a header is believed only as far as the file holds what it says; memory is bounded by the pieces that are
asked for. The format: https://github.com/huggingface/safetensors#format.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import BinaryIO, TypeGuard

import numpy as np
import numpy.typing as npt

from tutti.inference.foreign.errors import NotImportable

INDEX = "model.safetensors.index.json"
"""The file that lists the files of weights that are cut into several."""
LENGTH_BYTES = 8
MOST_HEADER_BYTES = 100 << 20
"""The limit of the library of the format."""
FLOATS = {"F32": 4, "BF16": 2, "F16": 2}
"""Types of weights by their names in a header, with the bytes of a number."""
TYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


@dataclass(frozen=True)
class Tensor:
    """A tensor in a file: its first byte is byte `offset` of the file."""

    file: str
    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int

    @property
    def elements(self) -> int:
        return prod(self.shape)


def header(file: BinaryIO, name: str) -> dict[str, Tensor]:
    """The tensors of an open file by their names; `name` is that of the file. Raises NotImportable."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(os.pread(file.fileno(), LENGTH_BYTES, 0), "little")
    if size < LENGTH_BYTES or length > min(MOST_HEADER_BYTES, size - LENGTH_BYTES):
        raise NotImportable(name, "", seen=f"a file of {size} bytes", expected="a whole file of safetensors")
    try:
        found = json.loads(os.pread(file.fileno(), length, LENGTH_BYTES))
        if not isinstance(found, dict):
            raise TypeError(f"its header is {type(found).__name__}")
        found.pop("__metadata__", None)
        begin = LENGTH_BYTES + length
        made = {key: _tensor(name, key, value, begin, size) for key, value in found.items()}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotImportable(name, "", seen=str(error), expected="a file of safetensors") from error
    places = sorted((each.offset, each.offset + each.elements * FLOATS[each.kind], key) for key, each in made.items())
    for (_, end, _), (start, _, key) in pairwise(places):
        if start < end:
            raise NotImportable(name, key, seen=f"at byte {start}", expected=f"byte {end} or later: tensors overlap")
    return made


def _tensor(file: str, name: str, value: Mapping[str, object], begin: int, size: int) -> Tensor:
    kind, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(kind, str) or kind not in FLOATS:
        expected = f"one of {', '.join(FLOATS)}: weights as they were trained, not quantized"
        raise NotImportable(file, f"{name}.dtype", seen=kind, expected=expected)
    if not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise ValueError(f"{name} has shape {shape!r} and data_offsets {offsets!r}")
    start, end = offsets
    if end - start != prod(shape) * FLOATS[kind] or begin + end > size:
        expected = f"bytes of the file for {kind} {list(shape)}"
        raise NotImportable(file, f"{name}.data_offsets", seen=list(offsets), expected=expected)
    return Tensor(file, name, kind, tuple(shape), begin + start)


def _counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(each) is int and 0 <= each < 2**63 for each in value)


class Tensors:
    """The tensors of a folder's files, which are open."""

    def __init__(self, files: Mapping[str, BinaryIO]) -> None:
        """Raises NotImportable."""
        self.files = files
        self.found: dict[str, Tensor] = {}
        for file, opened in files.items():
            for name, tensor in header(opened, file).items():
                if name in self.found:
                    raise NotImportable(file, name, seen="a tensor", expected=f"none: {self.found[name].file} has it")
                self.found[name] = tensor

    def read(self, name: str, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Elements `start` to `stop` of a tensor in row-major order, as float32. Raises NotImportable."""
        tensor = self.found[name]
        width = FLOATS[tensor.kind]
        data = _exactly(self.files[tensor.file], tensor.offset + start * width, (stop - start) * width, tensor.file)
        if tensor.kind == "BF16":
            bits = np.frombuffer(data, "<u2").astype(np.uint32) << 16
            numbers: npt.NDArray[np.float32] = bits.view(np.float32)
        else:
            numbers = np.frombuffer(data, "<f4" if tensor.kind == "F32" else "<f2").astype(np.float32)
        if not np.isfinite(numbers).all():
            raise NotImportable(tensor.file, name, seen="an infinite number or none", expected="finite numbers")
        return numbers


def _exactly(file: BinaryIO, offset: int, length: int, name: str) -> bytes:
    """Read `length` bytes at an offset, in several calls: one call reads at most 2 GiB."""
    data = bytearray()
    while len(data) < length:
        more = os.pread(file.fileno(), length - len(data), offset + len(data))
        if not more:
            raise NotImportable(name, "", seen=f"an end at byte {offset + len(data)}", expected="no change while read")
        data += more
    return bytes(data)
