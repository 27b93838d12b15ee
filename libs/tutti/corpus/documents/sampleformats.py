"""Samples in files that others read: WebDataset, and the layout that Hugging Face's `datasets` loads.

Promises: the same samples in the same order give the same bytes, whenever and by whom they are written; memory is that
of a row group. Files are named by split and number, so that their order is that of the samples.
"""

from __future__ import annotations

import io
import json
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.corpus.documents.samples import SPLITS, Sample

FILE_BYTES = 256 << 20  # of text, after which the next file begins
_GROUP = 1_000  # rows written together
_GROUP_BYTES = 16 << 20
COLUMNS = ("text", "document", "source", "title", "media_type")
SCHEMA = pa.schema([pa.field(name, pa.string(), nullable=False) for name in COLUMNS])


class File(ABC):
    """A file that takes samples of one split."""

    ending: str

    @abstractmethod
    def __init__(self, path: Path) -> None: ...

    @abstractmethod
    def add(self, sample: Sample) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class TarFile(File):
    """A shard of WebDataset: `DOCUMENT.txt` and `DOCUMENT.json` of each sample, one behind the other."""

    ending = ".tar"

    def __init__(self, path: Path) -> None:
        self._tar = tarfile.open(path, "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 - closed by `close`

    def add(self, sample: Sample) -> None:
        about = {name: getattr(sample, name) for name in COLUMNS if name != "text"}
        told = json.dumps(about, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        for name, data in (("txt", sample.text.encode()), ("json", told.encode())):
            member = tarfile.TarInfo(f"{sample.document}.{name}")  # owner, group and time are zeros, the mode is 0644
            member.size = len(data)
            self._tar.addfile(member, io.BytesIO(data))

    def close(self) -> None:
        self._tar.close()


class ParquetFile(File):
    """Rows of SCHEMA."""

    ending = ".parquet"

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetWriter(path, SCHEMA, compression="zstd")  # type: ignore[no-untyped-call]
        self._rows: list[dict[str, str]] = []
        self._bytes = 0

    def add(self, sample: Sample) -> None:
        self._rows.append({name: getattr(sample, name) for name in COLUMNS})
        self._bytes += len(sample.text)
        if len(self._rows) >= _GROUP or self._bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._file.write_batch(pa.RecordBatch.from_pylist(self._rows, SCHEMA))  # type: ignore[no-untyped-call]
            self._rows, self._bytes = [], 0

    def close(self) -> None:
        self._flush()
        self._file.close()  # type: ignore[no-untyped-call]


FORMATS: dict[str, type[File]] = {"webdataset": TarFile, "hf-datasets": ParquetFile}


class Split:
    """The files of one split: `train-00000.tar` and so on."""

    def __init__(self, folder: Path, name: str, kind: type[File], file_bytes: int) -> None:
        self._folder, self._name, self._kind, self._most = folder, name, kind, file_bytes
        self._file: File | None = None
        self._held = 0
        self.files: list[str] = []
        self.samples = self.text_bytes = 0

    def add(self, sample: Sample) -> None:
        size = len(sample.text.encode())
        if self._file is None or (self._held and self._held + size > self._most):
            self.close()
            name = f"{self._name}-{len(self.files):05}{self._kind.ending}"
            self._file, self._held = self._kind(self._folder / name), 0
            self.files.append(name)
        self._file.add(sample)
        self._held += size
        self.samples += 1
        self.text_bytes += size

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def told(self) -> dict[str, Any]:
        return {"samples": self.samples, "text_bytes": self.text_bytes, "files": self.files}


def write(
    samples: Iterable[Sample],
    folder: Path,
    *,
    format: str,
    dataset: str,
    file_bytes: int = FILE_BYTES,
    told: Callable[[int], None] = lambda count: None,
) -> dict[str, Any]:
    """Write samples into an empty folder; what was written of each split. `told` hears how many samples there are."""
    kind = FORMATS[format]
    splits = {name: Split(folder, name, kind, file_bytes) for name in SPLITS}
    try:
        for count, sample in enumerate(samples, start=1):
            splits[sample.split].add(sample)
            told(count)
    finally:
        for split in splits.values():
            split.close()
    found = {name: split.told() for name, split in splits.items()}
    if format == "hf-datasets":
        (folder / "README.md").write_text(card(dataset, found), encoding="utf-8")
    else:
        text = json.dumps({"dataset": dataset, "splits": found}, indent=2) + "\n"
        (folder / "dataset.json").write_text(text, encoding="utf-8")
    return found


def card(dataset: str, splits: dict[str, dict[str, Any]]) -> str:
    """The card of a dataset: which files are which split, and their columns, as `datasets` reads it."""
    held = {name: split for name, split in splits.items() if split["files"]}
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    lines += [line for name in held for line in (f"  - split: {name}", f"    path: {name}-*.parquet")]
    lines += ["dataset_info:", "  features:"]
    lines += [line for name in COLUMNS for line in (f"  - name: {name}", "    dtype: string")]
    lines += ["  splits:"]
    for name, split in held.items():
        lines += [f"  - name: {name}", f"    num_bytes: {split['text_bytes']}"]
        lines += [f"    num_examples: {split['samples']}"]
    lines += ["---", "", f"# {dataset}", ""]
    lines += ["Texts as they were tokenized. `document` names page and text, `source` is the page's URL or path.", ""]
    return "\n".join(lines)
