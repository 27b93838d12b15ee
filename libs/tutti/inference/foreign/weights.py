"""The state vector of a model, read chunk by chunk from the tensors of transformers.

Promises: every tensor of the files has a place in the model, and every place its tensor, of the right shape; memory is
bounded by one chunk.
"""

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tutti.checkpoints.digests import parameters_digest
from tutti.inference.foreign.errors import NotImportable
from tutti.inference.foreign.tensors import INDEX, TYPES, Tensors
from tutti.inference.names import EMBEDDING, HEAD, parts
from tutti.model.chunks import Chunk, Layout

IGNORED = re.compile(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq")
"""Tables that follow from the configuration; earlier versions of transformers stored them."""
COMPARED = 4 << 20
"""Elements of two tensors that are compared at once."""


class Weights:
    """The parameters of a model in the files of transformers."""

    def __init__(self, layout: Layout, tensors: Tensors, placed: Mapping[str, str]) -> None:
        """`placed` names the file of each tensor as an index lists it; empty without an index. Raises NotImportable."""
        self._layout, self._tensors = layout, tensors
        self._parts = sorted(parts(layout), key=lambda part: part.start)
        _check_index(tensors, placed)
        self._check_names()
        self._check_head()

    @property
    def dtype(self) -> str:
        """The type of all weights, such as bfloat16; "mixed" where they differ."""
        kinds = {self._tensors.found[part.name].kind for part in self._parts}
        return TYPES[kinds.pop()] if len(kinds) == 1 else "mixed"

    def digest(self) -> str:
        """The digest of the model: that of every checkpoint with these parameters. Raises NotImportable."""
        return parameters_digest(self._layout, map(self.chunk, self._layout.chunks))

    def chunk(self, chunk: Chunk) -> npt.NDArray[np.float32]:
        """The parameters of a chunk, float32 [chunk.length], zero between fields. Raises NotImportable."""
        start = self._layout.offsets[chunk.index]
        stop = start + chunk.length
        values = np.zeros(chunk.length, np.float32)
        for part in self._parts:
            first, last = max(part.start, start), min(part.start + part.elements, stop)
            if first < last:
                values[first - start : last - start] = self._tensors.read(
                    part.name, first - part.start, last - part.start
                )
        return values

    def _check_names(self) -> None:
        shapes = {part.name: part.shape for part in self._parts}
        for name, tensor in self._tensors.found.items():
            if name in shapes:
                if tensor.shape != shapes[name]:
                    expected = f"{list(shapes[name])}, by config.json"
                    raise NotImportable(tensor.file, f"{name}.shape", seen=list(tensor.shape), expected=expected)
            elif not IGNORED.fullmatch(name) and not (name == HEAD and self._layout.model.tied):
                expected = "a tensor of the model of config.json"
                raise NotImportable(tensor.file, name, seen="a tensor without a place in the model", expected=expected)
        for name in shapes:
            if name not in self._tensors.found:
                files = ", ".join(self._tensors.files)
                raise NotImportable(files, name, seen="no tensor", expected=f"one of shape {list(shapes[name])}")

    def _check_head(self) -> None:
        """Refuse a tied model that has another matrix for its outputs."""
        head = self._tensors.found.get(HEAD)
        if head is None or not self._layout.model.tied:
            return
        embedding = self._tensors.found[EMBEDDING]
        pieces = [(at, min(at + COMPARED, head.elements)) for at in range(0, head.elements, COMPARED)]
        same = head.shape == embedding.shape and all(
            np.array_equal(self._tensors.read(HEAD, *piece), self._tensors.read(EMBEDDING, *piece)) for piece in pieces
        )
        if not same:
            expected = f"the values of {EMBEDDING}, as config.json says tie_word_embeddings"
            raise NotImportable(head.file, HEAD, seen="a matrix of its own", expected=expected)


def _check_index(tensors: Tensors, placed: Mapping[str, str]) -> None:
    """Refuse an index that differs from the headers of the files that it names."""
    for name, file in placed.items():
        found = tensors.found.get(name)
        if found is None or found.file != file:
            seen = f"in {found.file}" if found else "in no file"
            raise NotImportable(INDEX, f"weight_map.{name}", seen=seen, expected=f"in {file}")
