"""The manifest: the envelope in which every immutable thing of the platform is described.

Its digest names kind, parents and body; it stays the same when another version of the producer writes the same thing.
Reading refuses what it does not understand: a newer major, another kind than the expected, a wrong digest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tutti.records.canonical import JsonValue, canonical_json, content_digest, parse_json
from tutti.records.errors import InvalidManifest, NotCanonical, UnsupportedFormat
from tutti.records.records import unread

FORMAT_MAJOR = 1
FORMAT_MINOR = 0
MAX_BYTES = 256 << 20
SHOWN = 8
_KEYS = frozenset({"body", "content_digest", "format_version", "kind", "parents", "producer"})


class Kind(StrEnum):
    """Kinds of manifests whose bodies the libraries read; a service may write others."""

    CRAWL = "crawl"
    CLASSIFIER = "classifier"
    CONVERSATIONS = "conversations"
    COMPARISON = "comparison"
    RELEASE = "release"
    INGEST = "ingest"
    FILTER = "filter"
    DOCUMENT_SHARD = "document-shard"
    DEDUP = "dedup"
    TOKENIZER = "tokenizer"
    DATASET = "dataset"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    IMPORT = "import"
    SAMPLE = "sample"
    EXPORT = "export"
    JUDGEMENTS = "judgements"
    PREFERENCES = "preferences"
    EXPERIENCE = "experience"


@dataclass(frozen=True, slots=True)
class Manifest:
    """An immutable description; `parents` are resource names (`dedups/…`), sorted, each once.

    `body` is JSON: the dataclass of its kind reads and writes it.  `producer` says which program wrote it (for example
    `tutti.tokenization 0.1.0`), and is not part of its identity.
    """

    kind: str
    body: Mapping[str, JsonValue]
    parents: tuple[str, ...]
    producer: str

    def __post_init__(self) -> None:
        if list(self.parents) != sorted(set(self.parents)):
            raise InvalidManifest(f"parents {list(self.parents)}: expected them sorted, each once")
        body = parse_json(canonical_json(self.body))
        if not isinstance(body, dict):
            raise InvalidManifest(f"expected an object as body, seen {type(self.body).__name__}")
        object.__setattr__(self, "body", body)

    @property
    def content_digest(self) -> str:
        """`blake3:<hex>` over kind, format major, parents and body."""
        return content_digest(
            {
                "body": self.body,
                "format_major": FORMAT_MAJOR,
                "kind": str(self.kind),
                "parents": list(self.parents),
            },
            kind="manifest",
        )

    def require_read(self, again: Mapping[str, JsonValue], *, retired: Collection[str] = ()) -> None:
        """Refuse a body with fields that were not read; `again` is what was read, written again.

        `retired` fields were written by earlier versions and are no longer read.
        """
        if paths := [path for path in unread(self.body, again) if path not in retired]:
            shown = ", ".join(f"body.{path}" for path in paths[:SHOWN])
            raise InvalidManifest(
                f"the {self.kind} manifest has {shown}, which this version does not know or would not write; "
                f"{self.producer} wrote it: read it with that version or a newer one"
            )

    def encode(self) -> bytes:
        """Canonical JSON; the same manifest has the same bytes."""
        return canonical_json(
            {
                "body": self.body,
                "content_digest": self.content_digest,
                "format_version": f"{FORMAT_MAJOR}.{FORMAT_MINOR}",
                "kind": str(self.kind),
                "parents": list(self.parents),
                "producer": self.producer,
            }
        )

    @classmethod
    def decode(cls, data: bytes, *, expected: str | tuple[str, ...]) -> Manifest:
        """Read a manifest of kind `expected`, or one of these; raises UnsupportedFormat or InvalidManifest."""
        wanted = (expected,) if isinstance(expected, str) else expected
        if len(data) > MAX_BYTES:
            raise InvalidManifest(f"a manifest of {len(data)} bytes: expected at most {MAX_BYTES}")
        try:
            value = parse_json(data)
        except NotCanonical as error:
            raise InvalidManifest(f"{error}; fetch the manifest again") from error
        if not isinstance(value, dict):
            raise InvalidManifest(f"expected a JSON object, seen {type(value).__name__}")
        _require_version(value.get("format_version"))
        kind = value.get("kind")
        if kind not in wanted:
            names = " or ".join(repr(str(each)) for each in wanted)
            raise InvalidManifest(f"a manifest of kind {kind!r}, expected {names}; a newer tutti may have written it")
        kind = str(kind)
        if missing := sorted(_KEYS - value.keys()):
            raise InvalidManifest(f"a {kind} manifest without {', '.join(missing)}; fetch it again")
        parents, body, producer = value["parents"], value["body"], value["producer"]
        if not isinstance(parents, list):
            raise InvalidManifest("parents: expected a list of resource names")
        if not isinstance(body, dict) or not isinstance(producer, str):
            raise InvalidManifest("expected an object as body and a string as producer")
        manifest = cls(kind=kind, body=body, parents=_names(parents), producer=producer)
        if manifest.content_digest != value["content_digest"]:
            raise InvalidManifest(
                f"the {kind} manifest is damaged: its content has digest {manifest.content_digest}, "
                f"it says {value['content_digest']}; fetch it again"
            )
        return manifest


def _names(parents: Sequence[JsonValue]) -> tuple[str, ...]:
    names = tuple(parent for parent in parents if isinstance(parent, str))
    if len(names) != len(parents):
        raise InvalidManifest("parents: expected a list of resource names")
    return names


def _require_version(version: object) -> None:
    major, _, minor = version.partition(".") if isinstance(version, str) else ("", "", "")
    if not (major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        raise InvalidManifest(f"format_version is {version!r}, expected for example '{FORMAT_MAJOR}.{FORMAT_MINOR}'")
    if int(major) > FORMAT_MAJOR:
        raise UnsupportedFormat(
            f"manifest format {version}, this version reads up to {FORMAT_MAJOR}.x; use a newer tutti to read it"
        )
