"""The stages in which every document is worked on by itself, as far as a computation of large sizes needs them.

Measured, in one process: core seconds and bytes, in proportion to text. `benchmarks.scale` multiplies them.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from tools import exhibit

from benchmarks.program import ROOT
from benchmarks.reading import archived
from benchmarks.tokenization import VOCABULARY, whole, written
from tutti.ingest.reading import shards

JSONL = 20_000_000


@dataclass(frozen=True)
class Reading:
    """Archives to document shards: core seconds a byte of HTML; bytes of archives for one, of shards for text."""

    core_seconds: float
    archive_bytes: float
    shard_bytes: float
    html: float
    """Bytes of HTML that were read."""


@dataclass(frozen=True)
class Tokenization:
    """Document shards to token shards, but for the tokenizer, which learns of a sample: core seconds a byte of text."""

    core_seconds: float
    bytes_a_token: float
    vocabulary: int
    text: float
    """Bytes of text that were encoded."""


def reading(folder: Path) -> Reading:
    """The second of two turns."""
    pages = exhibit.build(ROOT / "build" / "exhibit").folder
    archive, megabytes = archived(pages, folder / "pages.warc.gz", copies=1)
    for turn in ("first", "second"):
        (folder / turn).mkdir()
        begun = time.process_time()
        made = shards.write_shards(shards.Reading(None, 50 << 20, 0, archives=(archive,)), folder / turn)
        seconds = time.process_time() - begun
    html = megabytes * 1e6
    text = sum(len(each.encode()) for shard in made.shards for each in _texts(shard.path))
    stored = sum(shard.path.stat().st_size for shard in made.shards)
    return Reading(seconds / html, archive.stat().st_size / html, stored / text, html)


def tokenization(folder: Path) -> Tokenization:
    """With everything that reads, encodes, packs and writes; without what does not grow with the text."""
    done = whole(written(folder / "texts", JSONL), folder / "tokens")
    seconds = done["tokenization"] - done["baselines"] - done["train"]
    return Tokenization(seconds / done["bytes"], done["bytes"] / done["tokens"], VOCABULARY, done["bytes"])


def _texts(path: Path) -> list[str]:
    return pq.read_table(path, columns=["text"])["text"].to_pylist()  # type: ignore[no-untyped-call,no-any-return]
