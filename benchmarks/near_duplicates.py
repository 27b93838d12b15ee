"""Dedup all-in: Parquet shards read, equal texts found, bands, candidates, exact verification, clusters written.

Megabytes of UTF-8 a second of one core and peak resident memory, on 81 MB and (not with --quick) 900 MB of which half
are copies. The texts are lines of the standard library's documentation with seeded noise (near_corpus.py). Recall and
precision are against the similarities of planted pairs, computed from Python's sets of tuples of words: the text is in
lower case and words lie between spaces there, so that both definitions of a word are the same. Beside it rensa's
MinHash signatures of a sample, from the dependency group `peers`; that is the first of the steps alone.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks.near_corpus import Family, families, write
from benchmarks.pairs import alternate, median, timed
from benchmarks.peers import HOW, PYTHON
from benchmarks.program import ROOT, main, scratch
from benchmarks.quality import texts
from benchmarks.table import Row, at_least, at_most
from tutti.corpus import duplicates
from tutti.dedup.minhash import bands
from tutti.dedup.near import THRESHOLD

SMALL, LARGE = 81_500_000, 911_000_000
SAMPLE = 2_000_000
SPEED, MEMORY, SHARE = at_least(60), at_most(300), at_least(0.98)
CHECKED = 2500  # families


def measure(quick: bool) -> list[Row]:
    """Speed, memory, recall and precision for each size, then the peer."""
    pages = ["\n".join(" ".join(words(line)) for line in text.split("\n")) for text in texts()]
    rows: list[Row] = []
    for size in (SMALL,) if quick else (SMALL, LARGE):
        rows += _all_in(pages, size)
    return [*rows, _beside_rensa(pages, 3 if quick else 7)]


def words(line: str) -> list[str]:
    return "".join(each if each.isascii() and each.isalnum() else " " for each in line.lower()).split()


def _all_in(pages: Sequence[str], size: int) -> list[Row]:
    checked: list[Family] = []
    written = 0

    def watched() -> Iterator[Family]:
        nonlocal written
        for family in families(pages, size):
            written += sum(len(text) for _, text in family.members)
            if len(checked) < CHECKED:
                checked.append(family)
            yield family

    with scratch("near") as folder:
        place = Path(folder)
        shards, work = write(watched(), place), place / "work"
        work.mkdir()
        command = [sys.executable, "-m", "benchmarks.near_run", *map(str, (work, *shards))]
        done = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        table = duplicates.decode(Path(done["path"]).read_bytes())
    dropped = dict(zip(table["doc_id"].to_pylist(), table["kept"].to_pylist(), strict=True))
    clusters = {name: dropped.get(name, name) for family in checked for name, _ in family.members}
    recall, precision, pairs = _quality(checked, clusters)
    megabytes = written / 1e6
    what = f"near-duplicates in {megabytes:.0f} MB"
    documents = done["documents"] + done["duplicates"]
    times = f"{done['wall']:.1f} s on the wall, {done['core']:.1f} s on the core"
    note = f"{documents} documents, {len(dropped)} dropped; {times}"
    of = f"{pairs} planted pairs of at least {THRESHOLD}, in the first {len(checked)} families"
    return [
        Row(what, unit="MB/s", ours=megabytes / done["core"], goal=SPEED, note=note),
        Row(f"{what}: memory", unit="MB", ours=done["megabytes"], goal=MEMORY),
        Row(f"{what}: recall", ours=recall, goal=SHARE, note=of),
        Row(f"{what}: precision", ours=precision, goal=SHARE, note="of the documents dropped there"),
    ]


def _quality(checked: Sequence[Family], clusters: dict[str, str]) -> tuple[float, float, int]:
    """Of similar pairs, how many share a cluster; of dropped documents, how many have a similar one in it; the pairs.

    A document whose cluster is named by another family counts as wrongly dropped.
    """
    met = pairs = right = dropped = 0
    for family in checked:
        sets = {name: _shingles(text) for name, text in family.members}
        similar = {
            (a, b) for a in sets for b in sets if a < b and len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= THRESHOLD
        }
        pairs += len(similar)
        met += sum(clusters[a] == clusters[b] for a, b in similar)
        for name in sets:
            if clusters[name] != name:
                dropped += 1
                with_it = {other for pair in similar if name in pair for other in pair}
                right += clusters[name] in sets and any(clusters[other] == clusters[name] for other in with_it - {name})
    return met / pairs, right / dropped, pairs


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split(" ")
    return {tuple(words[at : at + 5]) for at in range(len(words) - 4)}


def _beside_rensa(pages: Sequence[str], turns: int) -> Row:
    what = "signatures beside rensa's"
    if not PYTHON.exists():
        return Row(what, note=HOW)
    sample = [text for family in families(pages, SAMPLE, seed=2) for _, text in family.members]
    size, arrays, times = sum(map(len, sample)) / 1e6, pa.array(sample), 5
    with scratch("near") as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(sample))
        command = [str(PYTHON), str(Path(__file__).with_name("near_peer.py")), str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
            assert peer.stdin is not None
            assert peer.stdout is not None
            asked, answers = peer.stdin, peer.stdout

            def turn() -> float:
                print(file=asked, flush=True)
                return float(answers.readline())

            ours = timed(lambda: [bands(arrays) for _ in range(times)], time.process_time)
            found = alternate(lambda: ours() / times, turn, pairs=turns)
            asked.close()
    return Row(
        what,
        unit="MB/s",
        ours=size / median(found.ours),
        peer=size / median(found.peer),
        ratio=found.speed(),
        note=f"{size:.2f} MB; 120 hashes of word 5-grams, text in memory",
    )


if __name__ == "__main__":
    main("near_duplicates", __doc__, measure)
