"""The dataset: the body of a manifest that names a tokenizer and the token shards of two splits.

`dataset_version` is the manifest's content digest, so it follows from the tokens and the tokenizer that made them. What
was left out on the way, and which files held it, is told by the stages before: a page that was dropped and one that was
never there leave the same dataset.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tutti.corpus.tokens.tokenshard import TokenShardInfo
from tutti.records.canonical import JsonValue
from tutti.records.errors import InvalidManifest
from tutti.records.fields import Digest, Fields
from tutti.records.manifest import Kind, Manifest
from tutti.records.records import written

TOKENIZERS = "tokenization/tokenizers/"
"""The prefix of the blobs of tokenizers."""


def tokenizer_key(version: str) -> str:
    """The blob of a tokenizer by its version, `blake3:<hex>`."""
    return f"{TOKENIZERS}{version.removeprefix('blake3:')}.json"


class Packing(StrEnum):
    """The way documents become rows: cut from one stream, or fitted into rows as whole pieces."""

    STREAM = "stream"
    BEST_FIT = "best_fit"


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A token shard: `shard_id` is its content digest; it holds `sequences` samples from `first_sample` on."""

    shard_id: Digest
    blob: str
    bytes: int
    bytes_digest: Digest
    sequences: int
    tokens: int
    first_sample: int
    documents: int
    first_doc_id: str
    last_doc_id: str

    @classmethod
    def of(cls, info: TokenShardInfo, *, blob: str) -> ShardEntry:
        """The entry of a shard that was written under the key `blob`."""
        return cls(
            shard_id=info.content_digest,
            blob=blob,
            bytes=info.bytes,
            bytes_digest=info.bytes_digest,
            sequences=info.sequences,
            tokens=info.tokens,
            first_sample=info.first_sample,
            documents=info.documents,
            first_doc_id=info.first_doc_id,
            last_doc_id=info.last_doc_id,
        )


@dataclass(frozen=True, slots=True)
class Split:
    """One split; `targets` is the number of tokens that are predicted, `text_bytes` the UTF-8 bytes they stand for."""

    shards: tuple[ShardEntry, ...]
    documents: int
    sequences: int
    targets: int
    text_bytes: int

    @classmethod
    def read(cls, fields: Fields) -> Split:
        split = fields.record(cls)
        expected = 0
        for shard in split.shards:
            if shard.first_sample != expected:
                raise InvalidManifest(
                    f"shard {shard.shard_id} begins with sample {shard.first_sample}, expected {expected}"
                )
            expected += shard.sequences
        if expected != split.sequences:
            raise InvalidManifest(f"the shards hold {expected} sequences, the split says {split.sequences}")
        return split


@dataclass(frozen=True, slots=True)
class Rejected:
    """The number of pages or documents left out for one reason; the stage that rejected them lists each."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class DatasetBody:
    """The body of a manifest of kind `dataset`.

    What is measured on a dataset (baselines, say) is not in it: a measurement must not change a name. Nor is the
    packing as a stream, so that names from before there was another one stay.
    """

    tokenizer_version: Digest
    vocabulary: int
    eos: int
    context: int
    train: Split
    validation: Split
    packing: Packing = Packing.STREAM

    def manifest(self, *, parents: tuple[str, ...], producer: str) -> Manifest:
        return Manifest(kind=Kind.DATASET, body=self.to_json(), parents=parents, producer=producer)

    def to_json(self) -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = written(self)
        packing = str(body.pop("packing"))
        return body if self.packing is Packing.STREAM else {**body, "packing": packing}

    @classmethod
    def read(cls, manifest: Manifest) -> DatasetBody:
        """Raises InvalidManifest naming the field that is missing or wrong."""
        fields = Fields.of(manifest, Kind.DATASET)
        packing = fields.text("packing", missing=Packing.STREAM.value)
        if packing not in list(Packing):
            raise InvalidManifest(f"body.packing is {packing!r}, expected {' or '.join(Packing)}; use a newer tutti")
        body = fields.record(cls, packing=Packing(packing))
        manifest.require_read(body.to_json(), retired=("rejected", "rejections"))  # of version 0.1
        return body
