"""What a Ray cluster does, beside one process: duplicates found, and documents made of an archive.

Duplicates of one set of shards are found embedded, by the plan in Daft, and by it on two nodes of Ray. All three read,
find and write the same: a search that gave another file would end the benchmark. Then documents are made of an archive
by one process, and on those nodes. Beside them the first step of the search alone, bands from texts in memory, by our
kernel and by Daft's own `minhash`. Megabytes of UTF-8 a second of one core; for Ray the core seconds of all of its
processes on both nodes, with those of the driver, but of an archive those of the driver alone, which is what a larger
cluster would wait for. The texts are those of near_duplicates.py and reading.py.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import daft
import psutil
import pyarrow as pa
from daft import col
from tests.raynodes import two_nodes
from tools import exhibit

from benchmarks.near_corpus import families
from benchmarks.near_duplicates import SAMPLE, words
from benchmarks.pairs import alternate, median, timed
from benchmarks.program import ROOT, WentWrong, main, scratch
from benchmarks.quality import texts
from benchmarks.reading import archived
from benchmarks.table import Row
from tutti.corpus.documents.documents import Document, Extraction, MediaType
from tutti.corpus.documents.documentshard import encode_document_shard
from tutti.dedup.minhash import PERMUTATIONS, bands

SIZE, QUICK = 40_000_000, 8_000_000
SHARD_DOCUMENTS = 1024
NEAR = "0.8"


class Run:
    """One engine in a process of its own."""

    def __init__(self, engine: str, folder: Path, shards: Sequence[str], nodes: int = 0) -> None:
        command = [sys.executable, "-m", "benchmarks.engine_run", engine, str(folder), NEAR, *shards]
        self._nodes = nodes
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answers: list[dict[str, Any]] = []

    def turn(self) -> float:
        """Seconds on all cores that took part."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before = self._elsewhere()
        print(file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        answer["core"] += self._elsewhere() - before
        self.answers.append(answer)
        return float(answer["core"])

    def close(self) -> None:
        self._process.communicate()

    def _elsewhere(self) -> float:
        if not self._nodes:
            return 0.0
        total = 0.0
        for process in psutil.Process(self._nodes).children(recursive=True):
            try:
                used = process.cpu_times()
                total += used.user + used.system
            except psutil.NoSuchProcess:
                continue
        return total


def measure(quick: bool) -> list[Row]:
    """The embedded search beside both others, then bands beside Daft's."""
    pages = ["\n".join(" ".join(words(line)) for line in text.split("\n")) for text in texts()]
    turns, rows = 2 if quick else 3, []
    with scratch("engines") as place, two_nodes(1_000_000_000) as nodes:
        folder = Path(place)
        shards, size = put(pages, QUICK if quick else SIZE, folder)
        here = Run("here", folder, shards)
        for name, other in (
            ("in Daft, one process", Run("daft", folder, shards)),
            ("in Daft on two nodes of Ray", Run(nodes.address, folder, shards, nodes.pid)),
        ):
            found = alternate(here.turn, other.turn, pairs=turns)
            other.close()
            answers = here.answers + other.answers
            if len({answer["digest"] for answer in answers}) != 1:
                raise WentWrong(f"another file than the embedded search wrote: {answers}")
            walls = [median(tuple(answer["wall"] for answer in run.answers[-turns:])) for run in (here, other)]
            rows.append(
                Row.of_speed(
                    f"duplicates in {size / 1e6:.0f} MB; peer: {name}",
                    unit="MB/s",
                    amount=size / 1e6,
                    pairs=found,
                    note=f"{len(shards)} shards; on the wall {walls[0]:.1f} s embedded, {walls[1]:.1f} s there; "
                    f"{here.answers[-1]['megabytes']:.0f} MB and {other.answers[-1]['megabytes']:.0f} MB there",
                )
            )
        here.close()
        rows.append(reading_beside_ray(nodes.address, folder, copies=2 if quick else 8, turns=turns))
    return [*rows, bands_beside_daft(pages, 3 if quick else 7)]


def reading_beside_ray(address: str, folder: Path, *, copies: int, turns: int) -> Row:
    """An archive read by one process, beside what is left to it where nodes make the documents."""
    archive, size = archived(exhibit.build(ROOT / "build" / "exhibit").folder, folder / "web.warc.gz", copies=copies)
    told: list[dict[str, Any]] = []

    def read(*ray: str) -> float:
        command = [sys.executable, "-m", "benchmarks.reading_run", "1", str(archive), str(folder), *ray]
        told.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout))
        if told[-1]["digests"] != told[0]["digests"]:
            raise WentWrong("other shards than the first turn wrote")
        return float(told[-1]["core"])

    found = alternate(read, lambda: read(address), pairs=turns)
    return Row.of_speed(
        f"WARC to document shards, {size:.0f} MB; peer: documents made on two nodes of Ray",
        unit="MB/s",
        amount=size,
        pairs=found,
        note=f"of the process that reads and writes alone, from its begin; on the wall {told[-2]['wall']:.1f} s by one "
        f"process, {told[-1]['wall']:.1f} s there",
    )


def put(pages: Sequence[str], size: int, folder: Path) -> tuple[list[str], int]:
    """Document shards as blobs of a folder: their keys, and the bytes of their texts."""
    documents = [
        Document.make(
            source=name,
            text=text,
            title="",
            media_type=MediaType.PLAIN,
            charset="utf-8",
            replaced_characters=0,
            extraction=Extraction.VERBATIM,
            normalisation_version=1,
        )
        for family in families(pages, size)
        for name, text in family.members
    ]
    keys = []
    for begin in range(0, len(documents), SHARD_DOCUMENTS):
        data, info = encode_document_shard(documents[begin : begin + SHARD_DOCUMENTS])
        keys.append(f"ingest/document-shards/{info.bytes_digest.removeprefix('blake3:')}.parquet")
        path = folder / "blobs" / keys[-1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return keys, sum(len(document.text.encode()) for document in documents)


def bands_beside_daft(pages: Sequence[str], turns: int) -> Row:
    """Our bands beside Daft's signatures of the same texts; in this process."""
    sample = [text for family in families(pages, SAMPLE, seed=2) for _, text in family.members]
    arrays, size, times = pa.array(sample), sum(map(len, sample)) / 1e6, 5
    frame = daft.from_pydict({"text": sample}).collect()

    def theirs() -> object:
        return frame.select(col("text").minhash(num_hashes=PERMUTATIONS, ngram_size=5)).collect()

    ours = timed(lambda: [bands(arrays) for _ in range(times)], time.process_time)
    found = alternate(lambda: ours() / times, timed(theirs, time.process_time), pairs=turns)
    return Row.of_speed(
        "bands of texts; peer: Daft's minhash",
        unit="MB/s",
        amount=size,
        pairs=found,
        note=f"{size:.2f} MB; 120 hashes of word 5-grams, text in memory; words lie between spaces there",
    )


if __name__ == "__main__":
    main("engines", __doc__, measure)
