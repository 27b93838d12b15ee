"""The report of a shard: the small JSON that its writer puts beside it, and from which a manifest is built.

Encoding is canonical, so equal reports have equal bytes; decoding refuses a field that is missing, unknown or wrong.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti.checkpoints.errors import InvalidReport
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.scalars import StateScalars
from tutti.model.chunks import Kind
from tutti.model.plan import Shape
from tutti.model.spec import SpecError
from tutti.records.canonical import DIGEST_BYTES, JsonValue, bytes_digest, canonical_json, parse_json
from tutti.records.errors import CorpusError
from tutti.records.fields import Fields
from tutti.records.records import later_names, written_later

FORMAT = 1
MAX_BYTES = 64 << 20
KINDS = list(Kind)
_RECORDED = frozenset({"shape", "training", "layout", "kernel", "scalars", "loss", "bits_per_byte", "chunks"})
_KEYS = _RECORDED | {
    "curve",
    "format",
    "job",
    "line",
    "step",
    "epoch",
    "rank",
    "node",
    "shard",
    "bytes",
    "bytes_digest",
}


@dataclass(frozen=True, slots=True)
class ChunkEntry:
    """The place of one tensor of one chunk in a blob, in bytes, and its digest."""

    chunk: int
    kind: Kind
    offset: int
    nbytes: int
    digest: bytes


@dataclass(frozen=True)
class ShardReport:
    """A rank's report of the shard it stored for one step; `training` and `layout` are digests, `kernel` the kernel
    signature.
    """

    name: ShardName
    node: str
    shape: Shape
    training: str
    layout: str
    kernel: Mapping[str, JsonValue]
    nbytes: int
    bytes_digest: str
    scalars: StateScalars
    loss: float | None
    bits_per_byte: float | None
    chunks: tuple[ChunkEntry, ...]
    curve: bytes = b""
    """The encoded curve since the snapshot before; empty where another rank tells it, or an earlier version wrote."""

    def __post_init__(self) -> None:
        if self.scalars.step != self.name.step:
            raise InvalidReport(f"{self.name}: its scalars are of step {self.scalars.step}, expected {self.name.step}")
        if self.name.rank >= self.shape.ranks:
            raise InvalidReport(f"{self.name}: rank {self.name.rank} of a shape with {self.shape.ranks} ranks")
        if any(number is not None and not math.isfinite(number) for number in (self.loss, self.bits_per_byte)):
            raise InvalidReport(f"{self.name}: loss {self.loss}, bits per byte {self.bits_per_byte}; expected numbers")
        end = 0
        for entry in self.chunks:
            if entry.offset != end or entry.nbytes < 1:
                raise InvalidReport(
                    f"{self.name}: chunk {entry.chunk} {entry.kind.value} lies at {entry.offset}, expected {end}"
                )
            end += entry.nbytes
        if end != self.nbytes:
            raise InvalidReport(f"{self.name}: the chunks have {end} bytes, the shard {self.nbytes}; expected equal")

    @property
    def shard_key(self) -> str:
        return self.name.shard_key

    @property
    def report_key(self) -> str:
        return self.name.report_key

    def encode(self) -> bytes:
        """Canonical JSON; the chunks as parallel arrays, their digests as one string of hexadecimal."""
        name = self.name
        curve: dict[str, JsonValue] = {"curve": base64.b64encode(self.curve).decode()} if self.curve else {}
        return canonical_json(
            curve
            | written_later(self)
            | {
                "bits_per_byte": self.bits_per_byte,
                "bytes": self.nbytes,
                "bytes_digest": self.bytes_digest,
                "chunks": {
                    "chunk": [entry.chunk for entry in self.chunks],
                    "digest": b"".join(entry.digest for entry in self.chunks).hex(),
                    "kind": [KINDS.index(entry.kind) for entry in self.chunks],
                    "nbytes": [entry.nbytes for entry in self.chunks],
                    "offset": [entry.offset for entry in self.chunks],
                },
                "epoch": name.epoch,
                "format": FORMAT,
                "job": name.job,
                "kernel": self.kernel,
                "layout": self.layout,
                "line": name.line,
                "loss": self.loss,
                "node": self.node,
                "rank": name.rank,
                "scalars": self.scalars.to_dict(),
                "shape": self.shape.to_dict(),
                "shard": self.shard_key,
                "step": name.step,
                "training": self.training,
            }
        )

    @property
    def digest(self) -> str:
        """`blake3:<hex>` of the encoded bytes."""
        return bytes_digest(self.encode())

    @classmethod
    def decode(cls, data: bytes, *, digest: str | None = None) -> ShardReport:
        """Read a report, whose bytes must have `digest` when one is given. Raises InvalidReport."""
        if len(data) > MAX_BYTES:
            raise InvalidReport(f"a report of {len(data)} bytes; expected at most {MAX_BYTES}")
        if digest is not None and (seen := bytes_digest(data)) != digest:
            raise InvalidReport(f"the report's bytes have digest {seen}; expected {digest}: store the snapshot again")
        try:
            return cls._read(parse_json(data))
        except InvalidReport:
            raise
        except (CorpusError, SpecError) as error:
            raise InvalidReport(f"no shard report: {error}") from error

    @classmethod
    def _read(cls, value: object) -> ShardReport:
        fields = Fields(value, path="report", error=InvalidReport)
        if (seen := fields.count("format")) != FORMAT:
            raise InvalidReport(f"report.format is {seen}; this version reads {FORMAT}: use a newer tutti")
        if isinstance(value, dict) and (unknown := sorted(value.keys() - _KEYS - later_names(cls))):
            raise InvalidReport(f"report: unknown {', '.join(unknown)}")
        count, text = fields.count, fields.text
        name = ShardName(text("job"), count("line"), count("step"), count("epoch"), count("rank"))
        stored = name.stored_by(text("node"))
        if (shard := text("shard")) not in (stored.shard_key, name.shard_key):  # that of earlier versions
            raise InvalidReport(f"report.shard is {shard!r}; expected {stored.shard_key!r}")
        report = cls(
            name=stored if shard == stored.shard_key else name,
            node=text("node"),
            shape=Shape.from_dict(mapping(fields, "shape")),
            training=text("training"),
            layout=text("layout"),
            kernel=mapping(fields, "kernel"),
            nbytes=count("bytes"),
            bytes_digest=fields.digest("bytes_digest"),
            scalars=StateScalars.from_dict(fields.value("scalars")),
            loss=optional_number(fields, "loss"),
            bits_per_byte=optional_number(fields, "bits_per_byte"),
            chunks=_entries(fields.nested("chunks")),
            curve=_unpacked(fields.text("curve", missing="")),
            **fields.later(cls),
        )
        return report


def mapping(fields: Fields, key: str) -> Mapping[str, JsonValue]:
    """An object, unread."""
    fields.nested(key)
    value = fields.value(key)
    assert isinstance(value, Mapping)
    return value


def optional_number(fields: Fields, key: str) -> float | None:
    return None if fields.value(key) is None else fields.number(key)


def digests_of(text: str, count: int) -> list[bytes]:
    """`count` digests from one string of hexadecimal. Raises InvalidReport."""
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise InvalidReport(f"chunk digests: {error}") from error
    if len(data) != count * DIGEST_BYTES or len(text) != 2 * len(data):
        raise InvalidReport(f"chunk digests: {len(text)} characters; expected {count} x {2 * DIGEST_BYTES}")
    return [data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)]


def _unpacked(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidReport(f"report.curve: {error}; expected base64") from error


def _entries(fields: Fields) -> tuple[ChunkEntry, ...]:
    columns: Sequence[list[int]] = [fields.counts(key) for key in ("chunk", "kind", "offset", "nbytes")]
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise InvalidReport(f"report.chunks: columns of {sorted(lengths)} entries; expected equal lengths")
    digests = digests_of(fields.text("digest"), lengths.pop())
    if any(kind >= len(KINDS) for kind in columns[1]):
        raise InvalidReport(f"report.chunks.kind: expected 0 to {len(KINDS) - 1}")
    return tuple(
        itertools.starmap(
            lambda chunk, kind, offset, nbytes, digest: ChunkEntry(chunk, KINDS[kind], offset, nbytes, digest),
            zip(*columns, digests, strict=True),
        )
    )
