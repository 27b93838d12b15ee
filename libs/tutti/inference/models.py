"""Models kept in memory by their digest, for a process that answers many requests.

Promises: equal digests are loaded once; at most the given bytes of parameters are kept, and the model that was used
longest ago is dropped first; parameters are verified by digest when they are loaded. Imports torch when one is loaded.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tutti.checkpoints.bodies import Body, decode_body
from tutti.checkpoints.staged import open_staged
from tutti.inference.errors import InferenceError
from tutti.inference.memory import parameter_bytes
from tutti.inference.parameters import parameters_of
from tutti.records import sizes

if TYPE_CHECKING:
    from torch import Tensor


class NotLoaded(InferenceError):
    """The model is not in memory, and the request names no folder to load it from."""


class NoRoom(InferenceError):
    """The model does not fit into the memory that there is."""


@dataclass(frozen=True)
class Wanted:
    """The model of a request.

    `manifest` has the bytes of its checkpoint's manifest; `folder` holds the staged checkpoint, None asks for a model
    that is in memory. At most `most_bytes` of parameters are kept for later requests. `free_bytes` is the memory that
    is available beside that of this process; None: unknown.
    """

    manifest: bytes
    folder: Path | None
    most_bytes: int
    free_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class Model:
    """`vector` holds the parameters, float32 [layout.elements]; they are shared between requests and never written."""

    body: Body
    vector: "Tensor"


class Models:
    """The models of one process; used by one thread."""

    def __init__(self) -> None:
        self._vectors: OrderedDict[str, Tensor] = OrderedDict()

    @property
    def digests(self) -> tuple[str, ...]:
        """The models in memory, from the one that was used longest ago."""
        return tuple(self._vectors)

    def model(
        self, wanted: Wanted, *, beside: int = 0, advanced: Callable[[int, int], None] = lambda done, total: None
    ) -> Model:
        """Return the wanted model, loaded where necessary; `advanced` is called with the bytes so far and in all.

        `beside` is the memory in bytes that its use needs beside its parameters: models that are kept make room for it.
        A model that is larger than the bound is returned and not kept. Raises NoRoom, NotLoaded, CheckpointError.
        """
        body = decode_body(wanted.manifest)
        digest, size = body.model_digest, parameter_bytes(body.layout)
        vector = self._vectors.get(digest)
        self._make_room(wanted, body, beside)
        if vector is None:
            if wanted.folder is None:
                raise NotLoaded(f"the model {digest} of {body.name} is not in memory; give a folder to load it from")
            self._drop_to(wanted.most_bytes - size)
            vector = _loaded(body, wanted.folder, advanced)
        elif size > wanted.most_bytes:
            del self._vectors[digest]
        if size <= wanted.most_bytes:
            self._vectors[digest] = vector
            self._vectors.move_to_end(digest)
            self._drop_to(wanted.most_bytes)
        return Model(body, vector)

    def _make_room(self, wanted: Wanted, body: Body, beside: int) -> None:
        """Drop models until the memory holds the wanted one and what it needs beside. Raises NoRoom, dropping none."""
        if wanted.free_bytes is None:
            return
        size, loaded = parameter_bytes(body.layout), body.model_digest in self._vectors
        others = self._kept - (size if loaded else 0)
        short = beside + (0 if loaded else size) - wanted.free_bytes
        if short > others:
            raise NoRoom(
                f"{body.name} needs {sizes.size(size + beside)} of memory, {sizes.size(size)} for its parameters and "
                f"{sizes.size(beside)} to answer, and {sizes.size(wanted.free_bytes + self._kept)} are available: ask "
                "for fewer tokens, shorten the prompts, or take a smaller model"
            )
        if short > 0 and (loaded or wanted.folder is not None):
            if loaded:
                self._vectors.move_to_end(body.model_digest)
            self._drop_to(self._kept - short)

    @property
    def _kept(self) -> int:
        return sum(each.nbytes for each in self._vectors.values())

    def _drop_to(self, most_bytes: int) -> None:
        """Drop models until at most so many bytes of parameters are left."""
        while self._vectors and self._kept > most_bytes:
            self._vectors.popitem(last=False)


MODELS = Models()
"""Those of this process."""


def _loaded(body: Body, folder: Path, advanced: Callable[[int, int], None]) -> "Tensor":
    """The parameters, in memory of torch: it is aligned to 64 bytes, and the bits of a product can depend on that."""
    import torch

    staged = open_staged(folder, identity=body.identity)
    vector = torch.empty(body.layout.elements, dtype=torch.float32)
    parameters_of(staged, into=vector.numpy(), advanced=advanced)
    return vector
