"""A model's folder of Hugging Face: its files, found and checked before a weight is read.

Promises: only files inside the root are read, wherever links lead; the digest covers exactly the files that are read,
by their names and bytes; a file that changes while it is read is refused.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from tutti.checkpoints.imported import folder_digest
from tutti.inference.foreign.config import CONFIG, model_of
from tutti.inference.foreign.errors import NotImportable
from tutti.inference.foreign.objects import json_object
from tutti.inference.foreign.tensors import INDEX, Tensors
from tutti.inference.foreign.texts import GENERATION, SETTINGS, TEMPLATE, TOKENIZER
from tutti.inference.foreign.weights import Weights
from tutti.model.chunks import Layout
from tutti.records.canonical import bytes_digest, named

WEIGHTS = "model.safetensors"
OTHER_WEIGHTS = ("consolidated.", "pytorch_model", "model-")
"""Beginnings of names of files of weights that are not read alone."""
NEEDED = (CONFIG, TOKENIZER)
BESIDE = (GENERATION, SETTINGS, TEMPLATE, "LICENSE", "README.md")
"""Files that are read where they are there."""
MOST_TEXT_BYTES = 64 << 20
"""The limit of every file but those of weights."""
PIECE = 16 << 20


@dataclass(frozen=True)
class Seen:
    """The files of a folder that were read, by name: the digests of their bytes.

    `identities` are the size and the time of the last change of each file of weights.
    """

    digests: Mapping[str, str]
    identities: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Foreign:
    """A folder that is open: the layout of its model, its weights, and the bytes of its other files by name."""

    layout: Layout
    weights: Weights
    texts: Mapping[str, bytes]
    seen: Seen

    @property
    def digest(self) -> str:
        """The digest of the folder: over the names and bytes of exactly the files that are read."""
        return folder_digest(list(self.seen.digests.items()))

    @property
    def licence(self) -> str:
        """The licence as the head of README.md names it; "" where it does not."""
        lines = self.texts.get("README.md", b"").decode(errors="replace").splitlines()
        if not lines or lines[0] != "---" or "---" not in lines[1:]:
            return ""
        own = [line for line in lines[1 : lines.index("---", 1)] if line.startswith("license:")]
        return own[0].removeprefix("license:").strip().strip("\"'") if own else ""


@contextmanager
def opened(folder: Path, *, root: Path | None = None, seen: Seen | None = None) -> Iterator[Foreign]:
    """The folder, whose links are followed inside `root`, by default itself. Raises NotImportable, OSError.

    Where it was `seen` before, files of weights that have not changed since are not digested again.
    """
    inside = (root or root_of(folder)).resolve()
    with ExitStack() as stack:

        def open_(name: str) -> BinaryIO:
            return stack.enter_context(_within(folder, name, inside).open("rb"))

        present = sorted(each.name for each in folder.iterdir())
        for name in NEEDED:
            if name not in present:
                raise NotImportable(name, "", seen="no file", expected=f"a folder with {', '.join(NEEDED)}")
        texts = {name: _text(open_(name), name) for name in (*NEEDED, *BESIDE) if name in present}
        model = model_of(json_object(texts[CONFIG], CONFIG))
        placed, shards = _shards(present, open_)
        if placed:
            texts[INDEX] = _text(open_(INDEX), INDEX)
        files = {name: open_(name) for name in shards}
        before = {name: _identity(file) for name, file in files.items()}
        layout = Layout(model)
        weights = Weights(layout, Tensors(files), placed)
        digests = {name: bytes_digest(data) for name, data in texts.items()}
        if seen is None:
            digests |= {name: _digest_of(file) for name, file in files.items()}
        else:
            digests |= {name: digest for name, digest in seen.digests.items() if seen.identities.get(name)}
            _require_same(digests, seen.digests)
            _require_same(before, seen.identities)
        yield Foreign(layout, weights, texts, Seen(digests, before))
        _require_same({name: _identity(file) for name, file in files.items()}, before)


def _require_same(found: Mapping[str, object], before: Mapping[str, object]) -> None:
    for name in sorted({*found, *before}):
        if found.get(name) != before.get(name):
            raise NotImportable(name, "", seen="a file that changed while it was read", expected="no change")


def root_of(folder: Path) -> Path:
    """The folder that links may lead to: of a snapshot in the cache of Hugging Face that of its repository."""
    if folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--"):
        return folder.parent.parent
    return folder


def _within(folder: Path, name: str, root: Path) -> Path:
    path = folder / name
    if Path(name).name != name or not path.resolve().is_relative_to(root):
        raise NotImportable(name, "", seen="a link that leads elsewhere", expected=f"a file inside {root}")
    if not path.is_file():
        raise NotImportable(name, "", seen="no plain file", expected="a file of the folder")
    return path


def _shards(present: list[str], open_: Callable[[str], BinaryIO]) -> tuple[dict[str, str], list[str]]:
    """The file of each tensor as the index lists it, and all files of weights; transformers prefers a single file."""
    if WEIGHTS in present:
        return {}, [WEIGHTS]
    if INDEX in present:
        placed = json_object(_text(open_(INDEX), INDEX), INDEX).get("weight_map")
        if not isinstance(placed, dict) or not placed:
            raise NotImportable(INDEX, "weight_map", seen=placed, expected="the file of each tensor")
        for name, file in placed.items():
            if not isinstance(file, str) or not file.endswith(".safetensors") or file not in present:
                raise NotImportable(
                    INDEX, f"weight_map.{name}", seen=file, expected="a file of safetensors in the folder"
                )
        return placed, sorted(set(placed.values()))
    others = [name for name in present if name.startswith(OTHER_WEIGHTS) or name.endswith(".bin")]
    if others:
        expected = f"{WEIGHTS}, or {INDEX} with its files: other formats of weights are not read"
        raise NotImportable(others[0], "", seen="a file of weights", expected=expected)
    raise NotImportable(WEIGHTS, "", seen="no file of weights", expected=f"it, or {INDEX} with its files")


def _text(file: BinaryIO, name: str) -> bytes:
    if (size := os.fstat(file.fileno()).st_size) > MOST_TEXT_BYTES:
        raise NotImportable(name, "", seen=f"{size} bytes", expected=f"at most {MOST_TEXT_BYTES}")
    return file.read()


def _identity(file: BinaryIO) -> tuple[int, int]:
    stat = os.fstat(file.fileno())
    return stat.st_size, stat.st_mtime_ns


def _digest_of(file: BinaryIO) -> str:
    """The digest of a file's bytes, read a piece at a time."""
    state = blake3()
    while piece := file.read(PIECE):
        state.update(piece)
    return named(state)
