"""A folder of Hugging Face read in a process of the pool: first its files, then its parameters, a shard at a time.

Top-level and picklable. Memory is bounded by one chunk, and by the texts beside the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from tutti.chassis import progress
from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.digests import DTYPE, leaf_digest
from tutti.checkpoints.places import BlobEntry
from tutti.checkpoints.report import ChunkEntry
from tutti.checkpoints.verification import check_bytes
from tutti.model.chunks import Kind, Layout
from tutti.model.plan import BYTES
from tutti.model.spec import ModelSpec
from tutti.records.canonical import named
from tutti.records.errors import CorpusError

if TYPE_CHECKING:
    from tutti.inference.foreign.folder import Foreign, Seen

SHARD_BYTES = 256 << 20


@dataclass(frozen=True)
class Surveyed:
    """The facts about a folder: its model, the files that were read and the bytes of those beside the weights.

    `tokenizer` is the artefact of the tokenizer, of version `version`.
    """

    model: ModelSpec
    digest: str
    seen: Seen
    texts: Mapping[str, bytes]
    tokenizer: bytes
    version: str
    template: str
    licence: str
    dtype: str


@dataclass(frozen=True)
class Shard:
    """A file of parameters: the chunks in it, one behind the other."""

    nbytes: int
    bytes_digest: str
    entries: tuple[ChunkEntry, ...]


def survey(folder: Path, root: Path | None) -> Surveyed:
    """Read all of a folder once, and keep nothing of the weights. Raises WorkFailed naming file and key."""
    from tutti.corpus.tokens.marks import Marks
    from tutti.corpus.tokens.tokenizer import BytePairTokenizer
    from tutti.inference.foreign.texts import TOKENIZER, texts_of

    with _opened(folder, root, None) as foreign:
        texts = texts_of(foreign.texts, foreign.layout.model.vocabulary)
        marks = Marks(texts.ends, texts.begin, texts.padding, (), texts.chat, texts.words)
        try:
            tokenizer = BytePairTokenizer.of_others(foreign.texts[TOKENIZER], marks)
        except CorpusError as error:
            raise WorkFailed(f"{TOKENIZER}: {error}") from error
        return Surveyed(
            foreign.layout.model,
            foreign.digest,
            foreign.seen,
            foreign.texts,
            tokenizer.artefact,
            tokenizer.version,
            texts.template,
            foreign.licence,
            foreign.weights.dtype,
        )


def shards_of(layout: Layout, most: int = SHARD_BYTES) -> Iterator[range]:
    """The chunks of each shard: as many as have at most `most` bytes of parameters, and one at least."""
    first, size = 0, 0
    for chunk in layout.chunks:
        nbytes = BYTES * chunk.length
        if size and size + nbytes > most:
            yield range(first, chunk.index)
            first, size = chunk.index, 0
        size += nbytes
    yield range(first, len(layout.chunks))


def convert(folder: Path, root: Path | None, seen: Seen, chunks: range, to: Path) -> Shard:
    """Write the parameters of these chunks to a file, as float32. Raises WorkFailed where the folder has changed."""
    whole, entries, end = blake3(), list[ChunkEntry](), 0
    with _opened(folder, root, seen) as foreign, to.open("wb") as file:
        layout = foreign.layout
        for index in chunks:
            data = foreign.weights.chunk(layout.chunks[index]).astype(DTYPE, copy=False).data.cast("B")
            digest = leaf_digest(layout, layout.chunks[index], Kind.PARAMETER, data)
            entries.append(ChunkEntry(index, Kind.PARAMETER, end, data.nbytes, digest))
            whole.update(data)
            file.write(data)
            end += data.nbytes
            progress.say(end, 0, unit="bytes")
    return Shard(end, named(whole), tuple(entries))


def read_back(path: Path, key: str, shard: Shard, model: ModelSpec) -> tuple[str, ...]:
    """Defects of a stored shard, fetched to `path`, in words; empty when every byte is as it was digested."""
    with path.open("rb") as file:

        def read(start: int, length: int) -> bytes:
            file.seek(start)
            progress.say(start, shard.nbytes, unit="bytes")
            return file.read(length)

        if (size := path.stat().st_size) != shard.nbytes:
            return (f"{key}: seen {size} bytes, expected {shard.nbytes}",)
        blob = BlobEntry(key, shard.nbytes, shard.bytes_digest)
        return tuple(map(str, check_bytes(blob, shard.entries, Layout(model), read)))


@contextmanager
def _opened(folder: Path, root: Path | None, seen: Seen | None) -> Iterator[Foreign]:
    """The open folder. Raises WorkFailed."""
    from tutti.inference.foreign.errors import NotImportable
    from tutti.inference.foreign.folder import opened

    try:
        with opened(folder, root=root, seen=seen) as foreign:
            yield foreign
    except NotImportable as error:
        raise WorkFailed(str(error)) from error
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise WorkFailed(
            f"{error.strerror}: {Path(error.filename or folder).name}; expected a folder to read"
        ) from error
