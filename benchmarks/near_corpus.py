"""A corpus with planted near-duplicates, for near_duplicates.py.

Promises: documents are lines of the standard library's documentation pages drawn at random, with a seeded share of
words replaced by noise; half of all documents are copies of another with some more words replaced, so that similarities
lie on both sides of the threshold. The same pages, size and seed give the same documents.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.corpus.documents.documents import text_digest
from tutti.corpus.documents.documentshard import schema
from tutti.records.canonical import keyed_bytes

LINES, NOISE = 110, 0.1
COPIES = (0, 0, 0, 1, 1, 1, 2, 3)  # of a document: as many copies as originals in all
CHANGED = 0.025  # the largest share of words that a copy has replaced
ROW_GROUP, SHARD_DOCUMENTS = 4096, 16384
COLUMNS = pa.schema([schema().field(name) for name in ("doc_id", "text_digest", "text")])


@dataclass(frozen=True)
class Family:
    """An original and its copies: (doc_id, text) each."""

    members: tuple[tuple[str, str], ...]


def families(pages: Sequence[str], size: int, seed: int = 1) -> Iterator[Family]:
    """Families until their texts have `size` bytes."""
    source = random.Random(seed)
    lines = [line for page in pages for line in page.split("\n") if line.strip()]
    made = 0
    while made < size:
        words = _changed(" ".join(source.choices(lines, k=LINES)).split(" "), NOISE, source)
        members: list[tuple[str, str]] = []
        for copy in range(1 + source.choice(COPIES)):
            text = " ".join(_changed(words, CHANGED * source.random(), source) if copy else words)
            members.append((keyed_bytes("near", text.encode(), len(members).to_bytes(8)).hex(), text))
            made += len(text.encode())
        yield Family(tuple(members))


def one_shingle(count: int) -> Iterator[Family]:
    """One cluster: texts of the same four words, which differ in punctuation."""
    marks = ".!?,;:-+"
    for number in range(count):
        yield _single("alpha beta gamma delta" + "".join(marks[int(digit)] for digit in f"{number:o}"))


def mutually_similar(count: int, seed: int = 3) -> Iterator[Family]:
    """One cluster: texts of the same 60 words, each with another word in one place."""
    source = random.Random(seed)
    words = [f"w{place}" for place in range(60)]
    for number in range(count):
        place = source.randrange(len(words))
        yield _single(" ".join([*words[:place], f"x{number}", *words[place + 1 :]]))


def _single(text: str) -> Family:
    return Family(((keyed_bytes("near", text.encode()).hex(), text),))


def _changed(words: Sequence[str], share: float, source: random.Random) -> list[str]:
    changed = list(words)
    for _ in range(int(share * len(words))):
        changed[source.randrange(len(words))] = f"{source.getrandbits(40):x}"
    return changed


def write(found: Iterator[Family], folder: Path) -> list[Path]:
    """Document shards of the families' members, without the columns that nobody reads, in an order that parts them."""
    paths: list[Path] = []
    held: list[tuple[str, str]] = []
    for family in found:
        held += family.members
        if len(held) >= SHARD_DOCUMENTS:
            paths.append(_shard(held, folder / f"{len(paths):04}.parquet"))
            held = []
    if held:
        paths.append(_shard(held, folder / f"{len(paths):04}.parquet"))
    return paths


def _shard(rows: list[tuple[str, str]], path: Path) -> Path:
    ids, texts = zip(*sorted(rows), strict=True)
    digests = pa.array(map(text_digest, texts), pa.string())
    table = pa.table([pa.array(ids, pa.string()), digests, pa.array(texts, pa.large_string())], schema=COLUMNS)
    pq.write_table(table, path, compression="zstd", row_group_size=ROW_GROUP)  # type: ignore[no-untyped-call]
    return path
