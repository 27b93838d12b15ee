"""Reading stored bytes back: every byte of a shard or a checkpoint, against the digests that were made in memory.

A problem names the blob, the chunk, what was seen and what was expected. A store that cannot be reached is an error of
the store, never a problem of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from blake3 import blake3

from tutti.backbone.blobs import BlobMissing, Stat
from tutti.checkpoints.bodies import Body
from tutti.checkpoints.digests import leaf_digest
from tutti.checkpoints.errors import InvalidReport, Problem
from tutti.checkpoints.places import BlobEntry
from tutti.checkpoints.report import ChunkEntry, ShardReport
from tutti.checkpoints.writer import plan_of
from tutti.model.chunks import Layout
from tutti.model.spec import SpecError
from tutti.model.training import Training
from tutti.records.canonical import named

WINDOW = 16 << 20
Read = Callable[[int, int], bytes | memoryview]


class Readable(Protocol):
    """A source of blobs: a blob store, or a copy of some of its blobs."""

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, length: int) -> bytes: ...

    def stat(self, key: str) -> Stat: ...


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification: the blobs that were read, and their defects."""

    nbytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify_report(blobs: Readable, report_key: str, report_digest: str, training: Training) -> Verification:
    """Read a report and every byte of its shard back. Raises BlobError from the store."""
    try:
        data = blobs.get(report_key)
        report = ShardReport.decode(data, digest=report_digest)
    except BlobMissing:
        return Verification(0, (Problem(report_key, "", "no such blob", report_digest),))
    except InvalidReport as error:
        return Verification(0, (Problem(report_key, "", str(error), report_digest),))
    if report.report_key != report_key or report.training != training.digest():
        seen = f"a report of {report.name}, training {report.training}"
        return Verification(len(data), (Problem(report_key, "", seen, f"training {training.digest()}"),))
    try:
        plan = plan_of(training, report.shape)
    except SpecError as error:
        return Verification(len(data), (Problem(report_key, "", str(error), "a shape that the training can have"),))
    expected = [(entry.chunk, entry.kind, entry.nbytes) for entry in plan.snapshot_table(report.name.rank)]
    if [(entry.chunk, entry.kind, entry.nbytes) for entry in report.chunks] != expected:
        return Verification(len(data), (Problem(report_key, "", "another table of chunks", "that of the shape"),))
    blob = BlobEntry(report.shard_key, report.nbytes, report.bytes_digest)
    return verify_blob(blobs, blob, report.chunks, plan.layout)


def verify_manifest(blobs: Readable, body: Body) -> Verification:
    """Read every byte of a checkpoint back. Raises BlobError from the store."""
    parts = [
        verify_blob(blobs, blob, entries, body.layout)
        for blob, entries in zip(body.blobs, body.entries_by_blob, strict=True)
    ]
    return Verification(sum(part.nbytes for part in parts), tuple(p for part in parts for p in part.problems))


def verify_blob(blobs: Readable, blob: BlobEntry, entries: Sequence[ChunkEntry], layout: Layout) -> Verification:
    """Read one blob in windows of consecutive chunks."""
    try:
        size = blobs.stat(blob.key).size
        if size != blob.nbytes:
            return Verification(0, (Problem(blob.key, "", f"{size} bytes", f"{blob.nbytes} bytes"),))
        problems = check_bytes(blob, entries, layout, lambda start, length: blobs.get_range(blob.key, start, length))
    except BlobMissing:
        return Verification(0, (Problem(blob.key, "", "no such blob", blob.bytes_digest),))
    return Verification(blob.nbytes, tuple(problems))


def check_bytes(blob: BlobEntry, entries: Sequence[ChunkEntry], layout: Layout, read: Read) -> list[Problem]:
    """Compare what `read(start, length)` gives with every digest: of each tensor, and of the whole."""
    whole, problems = blake3(), []
    for window in _windows(entries):
        start = window[0].offset
        data = memoryview(read(start, window[-1].offset + window[-1].nbytes - start))
        whole.update(data)
        for entry in window:
            chunk = layout.chunks[entry.chunk]
            piece = data[entry.offset - start : entry.offset - start + entry.nbytes]
            if (seen := leaf_digest(layout, chunk, entry.kind, piece)) != entry.digest:
                where = f"chunk {chunk.index} ({chunk.name}) {entry.kind.value}"
                problems.append(Problem(blob.key, where, f"blake3:{seen.hex()}", f"blake3:{entry.digest.hex()}"))
    if not problems and named(whole) != blob.bytes_digest:
        problems.append(Problem(blob.key, "", named(whole), blob.bytes_digest))
    return problems


def _windows(entries: Sequence[ChunkEntry]) -> Iterator[Sequence[ChunkEntry]]:
    window: list[ChunkEntry] = []
    for entry in entries:
        if window and entry.offset + entry.nbytes - window[0].offset > WINDOW:
            yield window
            window = []
        window.append(entry)
    if window:
        yield window
