"""The manifest of an imported checkpoint: the parameters of a model that others trained, and the folder they came from.

Promises: it has no moments, no shape and no state digest; its ancestor is the digest over exactly the files that were
read. Reading one checks that both of its digests follow from its files and chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tutti.checkpoints.digests import model_root
from tutti.checkpoints.errors import InvalidCheckpoint
from tutti.checkpoints.keys import checkpoint_name, import_of, manifest_key
from tutti.checkpoints.places import (
    BlobEntry,
    ChunkPlace,
    Entries,
    blobs_of,
    blobs_to_json,
    check_places,
    entries_by_blob,
    places_of,
    places_to_json,
)
from tutti.checkpoints.report import mapping
from tutti.model.chunks import Kind as Tensor
from tutti.model.chunks import Layout
from tutti.model.spec import SpecError
from tutti.records.canonical import JsonValue, content_digest
from tutti.records.errors import CorpusError
from tutti.records.fields import Fields
from tutti.records.manifest import Kind, Manifest
from tutti.records.records import later, written, written_later

KINDS = (Tensor.PARAMETER,)
ROWS, THREADS, MOST_LENGTH = 8, 1, 1024
"""Rows that are read at once, threads to compute with, and tokens of a text where no more are asked for: no training
says others, and each step computes over the room of all texts."""


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file that was read: its name and the digest of its bytes; `key` is the blob with its bytes, "" for weights."""

    name: str
    bytes_digest: str
    key: str = later("", since="0.3")


def folder_digest(files: Sequence[tuple[str, str]]) -> str:
    """The digest of a folder by the names of the files that are read, and the digests of their bytes."""
    return content_digest(dict(files), kind="foreign folder")


@dataclass(frozen=True)
class ImportBody:
    """`places` are those of the parameters of all chunks in order; `files` are those that were read, by name.

    `tokenizer` is the version of the tokenizer, `template` the digest of the chat template, "" for none; `licence` is
    the licence as the folder names it, "" where it names none. `dtype` is the type of the weights in the folder.
    `verified_by` names the processes that read the bytes back before the decision.
    """

    layout: Layout = field(compare=False)  # the digest of the model names it
    files: tuple[FolderFile, ...]
    tokenizer: str
    template: str
    licence: str
    dtype: str
    model_digest: str
    blobs: tuple[BlobEntry, ...]
    places: tuple[ChunkPlace, ...]
    verified_by: tuple[str, ...]

    def __post_init__(self) -> None:
        names = [each.name for each in self.files]
        if names != sorted(set(names)) or not names:
            raise InvalidCheckpoint(f"an import has files {names}; expected them sorted, each once")
        check_places(self.name, self.layout, KINDS, self.blobs, self.places)
        seen = model_root(self.layout, [place.entry.digest for place in self.places])
        if seen != self.model_digest:
            raise InvalidCheckpoint(f"{self.name}: its chunks have model_digest {seen}, it says {self.model_digest}")

    @cached_property
    def folder_digest(self) -> str:
        return folder_digest([(each.name, each.bytes_digest) for each in self.files])

    @property
    def identity(self) -> str:
        """The digest that names the content of the checkpoint: that of its folder."""
        return self.folder_digest

    @property
    def kinds(self) -> Sequence[Tensor]:
        """The tensors of each chunk that are stored, in order."""
        return KINDS

    @property
    def rows(self) -> int:
        """The rows in whose shape texts are read."""
        return ROWS

    @property
    def length(self) -> int:
        """The tokens of a conversation, unless a deployment asks for more."""
        return min(self.layout.model.context, MOST_LENGTH)

    @property
    def threads(self) -> int:
        """The threads to compute with."""
        return THREADS

    @property
    def name(self) -> str:
        return checkpoint_name(import_of(self.folder_digest), 0, 0)

    @property
    def manifest_key(self) -> str:
        return manifest_key(import_of(self.folder_digest), 0, 0)

    @property
    def nbytes(self) -> int:
        return sum(blob.nbytes for blob in self.blobs)

    @cached_property
    def entries_by_blob(self) -> Entries:
        """The entries of each blob, in order of their offsets."""
        return entries_by_blob(self.blobs, self.places)

    def manifest(self, *, producer: str) -> Manifest:
        """Its parents: the folder, and the tokenizer that came with it."""
        folder, tokenizer = (each.removeprefix("blake3:") for each in (self.folder_digest, self.tokenizer))
        return Manifest(Kind.IMPORT, self._to_json(), (f"folders/{folder}", f"tokenizers/{tokenizer}"), producer)

    def _to_json(self) -> dict[str, JsonValue]:
        return {
            "blobs": blobs_to_json(self.blobs),
            "chunks": places_to_json(self.places),
            "dtype": self.dtype,
            "files": [written(each) for each in self.files],
            "folder_digest": self.folder_digest,
            "layout": self.layout.to_dict(),
            "layout_digest": self.layout.digest,
            "licence": self.licence,
            "model_digest": self.model_digest,
            "template": self.template,
            "tokenizer": self.tokenizer,
            "verified_by": list(self.verified_by),
            **written_later(self),
        }

    @classmethod
    def read(cls, manifest: Manifest) -> ImportBody:
        """Raises InvalidCheckpoint naming what is missing or wrong."""
        fields = Fields(manifest.body, path="body", error=InvalidCheckpoint)
        try:
            body = cls._read(fields)
            manifest.require_read(body._to_json())
        except InvalidCheckpoint:
            raise
        except (CorpusError, SpecError, KeyError, TypeError) as error:
            raise InvalidCheckpoint(f"no manifest of an import: {error}; {manifest.producer} wrote it") from error
        return body

    @classmethod
    def _read(cls, fields: Fields) -> ImportBody:
        layout = Layout.from_dict(mapping(fields, "layout"))
        found = cls(
            layout=layout,
            files=tuple(
                FolderFile(each.text("name"), each.digest("bytes_digest"), **each.later(FolderFile))
                for each in fields.objects("files")
            ),
            tokenizer=fields.digest("tokenizer"),
            template=fields.text("template"),
            licence=fields.text("licence"),
            dtype=fields.text("dtype"),
            model_digest=fields.digest("model_digest"),
            blobs=blobs_of(fields),
            places=places_of(fields, layout, KINDS),
            verified_by=tuple(fields.texts("verified_by")),
            **fields.later(cls),
        )
        for name, seen, expected in (
            ("folder_digest", found.folder_digest, fields.text("folder_digest")),
            ("layout_digest", layout.digest, fields.text("layout_digest")),
        ):
            if seen != expected:
                raise InvalidCheckpoint(
                    f"body.{name} is {expected}, this version computes {seen}; read it with the version that wrote it"
                )
        return found
