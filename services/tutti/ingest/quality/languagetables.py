"""The tables of py3langid's model: unpacked once a machine, then mapped from a file that all processes share.

Promises: the file lies with the compiled kernels, in a folder that nobody else writes to, and is named by the digest of
the packed model; it appears whole or not at all, and one that is cut or whose header does not hold is made anew. Where
there is no such folder each process unpacks the model for itself, which costs time and memory and nothing else.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from blake3 import blake3

from tutti.backbone.files import RealFiles, overwrite
from tutti.corpus.tokens.sections import HEADER_BYTES, Extent, Format, Sections, aligned
from tutti.native.arrays import np, npt
from tutti.native.native import own_folder
from tutti.records.canonical import keyed_bytes
from tutti.records.errors import CorpusError


class Section(StrEnum):
    """The parts of the file, in order."""

    CODES = "codes"
    NEXT = "next"
    ROW = "row"
    FEATURE = "feature"
    TABLE = "table"
    PRIOR = "prior"


_DTYPES = {
    Section.NEXT: "uint32",
    Section.ROW: "uint16",
    Section.FEATURE: "int32",
    Section.TABLE: "float16",
    Section.PRIOR: "float64",
}
FORMAT = Format("tables of languages", b"TUTTILNG", 1, 0, struct.Struct("<8sHH"), Section)


@dataclass(frozen=True, slots=True)
class Model:
    """`next`: the state behind a row and a byte, uint32 [rows * 256]; `row` of a state, uint16; `feature` that is met
    in a state, int32, -1 for none; `table`: float16 [features, languages]; `prior`: float64 [languages].
    """

    codes: tuple[str, ...]
    next: npt.NDArray[np.uint32]
    row: npt.NDArray[np.uint16]
    feature: npt.NDArray[np.int32]
    table: npt.NDArray[np.float16]
    prior: npt.NDArray[np.float64]

    @property
    def alike(self) -> tuple[tuple[int, int], ...]:
        """Pairs of columns that stand for one language in two scripts."""
        first = {code: at for at, code in reversed([*enumerate(self.codes)])}
        return tuple((first[code], at) for at, code in enumerate(self.codes) if first[code] < at)


def model(packed: Path, folder: Path | None) -> Model:
    """The model that is `packed` in a file of py3langid: mapped from `folder`, or unpacked and left there.

    `folder`: None when there is none to leave it in. Raises FileNotFoundError when there is no model: then the
    installation is damaged; ValueError when it holds numbers that are not finite.
    """
    name = keyed_bytes("language tables", packed.read_bytes(), sys.byteorder.encode()).hex()[:32]
    kept = folder / f"languages-{name}.tables" if folder else None
    if kept is not None and (found := _mapped(kept)) is not None:
        return found
    made = unpacked(packed)
    if kept is not None:
        _keep(made, kept)
    return made


def unpacked(packed: Path) -> Model:
    """The same, read by py3langid alone."""
    from py3langid.langid import LanguageIdentifier  # needed once

    read = LanguageIdentifier.from_model_file(str(packed))
    table = np.array(read.nb_ptc, np.float16, order="C")
    if not np.isfinite(table).all():
        raise ValueError(f"{packed.name} of py3langid holds numbers that are not finite; expected finite ones")
    return Model(
        tuple(read.nb_classes),
        np.array(read.tk_nextmove, np.uint32),
        np.asarray(read.tk_row, np.uint16),
        np.asarray(read.tk_output, np.int32),
        table,
        np.asarray(read.nb_pc, np.float64),
    )


def _mapped(kept: Path) -> Model | None:
    try:
        own_folder(kept.parent)
        file = Sections(kept, FORMAT)
    except (OSError, CorpusError):
        return None
    held = dict(zip(Section, file.extents, strict=True))
    codes = held.pop(Section.CODES)
    arrays = {
        section.value: np.frombuffer(
            file.map, dtype, held[section].length // np.dtype(dtype).itemsize, held[section].offset
        )
        for section, dtype in _DTYPES.items()
    }
    table = arrays.pop("table").reshape(-1, len(arrays["prior"]))
    return Model(tuple(json.loads(file.map[codes.offset : codes.end])), table=table, **arrays)


def _keep(made: Model, kept: Path) -> None:
    contents: list[bytes | memoryview] = [
        json.dumps(made.codes).encode(),
        *(_bytes(getattr(made, section.value)) for section in _DTYPES),
    ]
    try:
        own_folder(kept.parent)
        with tempfile.TemporaryDirectory(prefix=f"{kept.stem}-", dir=kept.parent) as scratch:
            overwrite(RealFiles(), Path(scratch) / "synced", kept, encoded(contents))
    except (OSError, CorpusError):
        pass  # the next process unpacks it again


def encoded(contents: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """The header of a file, and its sections with the zeros between them."""
    extents, pieces, end = list[Extent](), list[bytes | memoryview](), HEADER_BYTES
    for content in contents:
        begin = aligned(end)
        pieces += [bytes(begin - end), content]
        end = begin + len(content)
        extents.append(Extent(begin, len(content), blake3(content).digest()))
    return [FORMAT.encode((), extents), *pieces]


def _bytes(array: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
