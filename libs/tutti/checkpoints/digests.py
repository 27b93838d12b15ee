"""The two names of a state, built from one digest a (chunk, tensor kind).

A leaf's digest covers its header (chunk, kind, dtype, shape, offset in the state vector) and its little-endian bytes.
The roots are in domains of their own, so a leaf is never taken for a root, nor a model for a state. `model_digest`
covers the parameters; `state_digest` the moments and scalars too. Epoch, topology, parent and time are in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tutti.model.chunks import Chunk, Kind, Layout
from tutti.native.deferred import deferred
from tutti.records.canonical import DIGEST_BYTES, JsonValue, canonical_json, framed, hasher, named

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = deferred("numpy")

DTYPE = "<f4"
_LEAF, _MODEL, _STATE = "checkpoint leaf", "checkpoint model root", "checkpoint state root"


def leaf_digest(layout: Layout, chunk: Chunk, kind: Kind, data: bytes | memoryview) -> bytes:
    """32 bytes over one tensor of one chunk and its header; `data` is not copied."""
    header = (
        chunk.name.encode(),
        kind.value.encode(),
        DTYPE.encode(),
        chunk.length.to_bytes(8, "little"),
        layout.offsets[chunk.index].to_bytes(8, "little"),
    )
    state = framed(hasher(_LEAF), header)
    state.update(memoryview(data).nbytes.to_bytes(8, "little"))
    return state.update(data).digest()


def model_digest(layout: Layout, leaves: Sequence[bytes]) -> str:
    """`leaves` are those of all chunks in order, of each its three kinds; the parameters' are taken."""
    _check(layout, leaves)
    return model_root(layout, [leaves[len(Kind) * chunk.index + _PARAMETER] for chunk in layout.chunks])


def vector_digest(layout: Layout, vector: npt.NDArray[np.float32]) -> str:
    """The model digest of parameters at hand, float32 [layout.elements]: that of a checkpoint which holds them."""
    return parameters_digest(
        layout,
        (vector[at : at + chunk.length] for chunk, at in zip(layout.chunks, layout.offsets, strict=True)),
    )


def parameters_digest(layout: Layout, chunks: Iterable[npt.NDArray[np.float32]]) -> str:
    """The model digest of the parameters of all chunks in order, each float32 [chunk.length]."""
    leaves = [
        leaf_digest(layout, chunk, Kind.PARAMETER, np.ascontiguousarray(values, DTYPE).view(np.uint8).data)
        for chunk, values in zip(layout.chunks, chunks, strict=True)
    ]
    return model_root(layout, leaves)


def state_digest(layout: Layout, leaves: Sequence[bytes], scalars: JsonValue) -> str:
    """Over all leaves in order and the canonical JSON of the scalars."""
    _check(layout, leaves)
    return named(framed(hasher(_STATE), (layout.digest.encode(), canonical_json(scalars), *leaves)))


def model_root(layout: Layout, parameters: Sequence[bytes]) -> str:
    """The model digest by the leaf digests of the parameters of all chunks in order."""
    if len(parameters) != len(layout.chunks):
        raise ValueError(f"{len(parameters)} leaf digests; expected {len(layout.chunks)}, one a chunk")
    return named(framed(hasher(_MODEL), (layout.digest.encode(), *parameters)))


def _check(layout: Layout, leaves: Sequence[bytes]) -> None:
    if len(leaves) != len(Kind) * len(layout.chunks) or any(len(leaf) != DIGEST_BYTES for leaf in leaves):
        expected = f"{len(layout.chunks)} chunks x {len(Kind)} digests of {DIGEST_BYTES} bytes"
        raise ValueError(f"{len(leaves)} leaf digests; expected {expected}")


_PARAMETER = list(Kind).index(Kind.PARAMETER)
