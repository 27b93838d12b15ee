"""Dedup all-in: Parquet shards read, equal texts found, bands, candidates, exact verification, clusters written.

Megabytes of UTF-8 a second of one core and peak resident memory, on 81 MB and (not with --quick) 900 MB of which half
are copies. The texts are lines of the standard library's documentation with seeded noise (near_corpus.py). Recall and
precision are against all similar pairs, by an exact join that shares none of our code (near_exact.py), which takes
minutes and 10 GB for the larger corpus: the text is in lower case and words lie between spaces, so that all definitions
of a word are the same. Then the time of a document in one cluster of 200,000, as a multiple of that in one of 20,000.
Beside it rensa's MinHash signatures of a sample, from the dependency group `peers`; that is the
first of the steps alone.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.near_corpus import Family, families, mutually_similar, one_shingle, write
from benchmarks.pairs import alternate, timed
from benchmarks.peers import HOW, PYTHON
from benchmarks.program import ROOT, main, scratch
from benchmarks.quality import texts
from benchmarks.table import Row, at_least, at_most
from tutti.corpus.documents import duplicates
from tutti.dedup.minhash import bands
from tutti.dedup.near import THRESHOLD

SMALL, LARGE = 81_500_000, 911_000_000
SAMPLE = 2_000_000
FEW, MANY = 20_000, 200_000
SPEED, MEMORY, SHARE = at_least(60), at_most(300), at_least(0.98)
LINEAR = at_most(1.5)
Pairs = Sequence[tuple[str, str]]


def measure(quick: bool) -> list[Row]:
    """Speed, memory, recall and precision for each size, then the peer."""
    pages = ["\n".join(" ".join(words(line)) for line in text.split("\n")) for text in texts()]
    rows: list[Row] = []
    for size in (SMALL,) if quick else (SMALL, LARGE):
        rows += _all_in(pages, size)
    rows += [_one_cluster("one-shingle", one_shingle), _one_cluster("mutually similar", mutually_similar)]
    return [*rows, _beside_rensa(pages, 3 if quick else 7)]


def words(line: str) -> list[str]:
    return "".join(each if each.isascii() and each.isalnum() else " " for each in line.lower()).split()


def _all_in(pages: Sequence[str], size: int) -> list[Row]:
    written = 0

    def watched() -> Iterator[Family]:
        nonlocal written
        for family in families(pages, size):
            written += sum(len(text) for _, text in family.members)
            yield family

    with scratch("near") as folder:
        place = Path(folder)
        shards = write(watched(), place)
        done, together = (_run(cores, place / f"work-{cores}", shards) for cores in (1, 2))
        table = duplicates.decode(Path(done["path"]).read_bytes())
        dropped = dict(zip(table["doc_id"].to_pylist(), table["kept"].to_pylist(), strict=True))
        similar, of = _joined(place, shards)
    recall, precision = quality(similar, dropped)
    megabytes = written / 1e6
    what = f"near-duplicates in {megabytes:.0f} MB"
    documents = done["documents"] + done["duplicates"]
    times = f"{done['core']:.1f} s on one core, {together['wall']:.1f} s on the wall by two"
    note = f"{documents} documents, {done['duplicates']} dropped; {times}"
    return [
        Row(what, unit="MB/s", ours=megabytes / done["core"], goal=SPEED, note=note),
        Row(f"{what}: memory", unit="MB", ours=max(done["megabytes"], together["megabytes"]), goal=MEMORY),
        Row(f"{what}: recall", ours=recall, goal=SHARE, note=f"{round(recall * len(similar))} of {len(similar)} {of}"),
        Row(f"{what}: precision", ours=precision, goal=SHARE, note=f"of {len(dropped)} documents dropped"),
    ]


def _one_cluster(what: str, texts: Callable[[int], Iterator[Family]]) -> Row:
    """The time of a document among many of one cluster, as a multiple of that among few."""
    seconds = dict.fromkeys((FEW, MANY), 0.0)
    with scratch("near") as folder:
        for count in seconds:
            place = Path(folder) / str(count)
            place.mkdir()
            seconds[count] = _run(1, place / "work", write(texts(count), place))["core"]
    note = " and ".join(f"{count:,} in {core:.2f} CPU-s" for count, core in seconds.items())
    ratio = seconds[MANY] / MANY / (seconds[FEW] / FEW)
    return Row(f"{what} documents: time of one", unit="x", ours=ratio, goal=LINEAR, note=note)


def _run(cores: int, work: Path, shards: Sequence[Path]) -> Any:
    """What a dedup by so many cores says of itself."""
    work.mkdir()
    command = [sys.executable, "-m", "benchmarks.near_run", str(cores), *map(str, (work, *shards))]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def _joined(place: Path, shards: Sequence[Path]) -> tuple[Pairs, str]:
    """All similar pairs of these shards, and what they are."""
    found, program = place / "pairs.json", Path(__file__).with_name("near_exact.py")
    command = [sys.executable, str(program), str(found), *map(str, shards)]
    done = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    pairs = [(one, other) for one, other in json.loads(found.read_text())]
    return pairs, f"pairs of at least {THRESHOLD}, all that an exact join of {done['documents']} documents finds"


def quality(similar: Pairs, dropped: Mapping[str, str]) -> tuple[float, float]:
    """Of similar pairs the share that one document stands for; of dropped documents the share that similar pairs lead
    from to the one that stays. `dropped`: what stays, by what goes.
    """
    above: dict[str, str] = {}

    def top(name: str) -> str:
        while name in above:
            above[name] = above.get(above[name], above[name])
            name = above[name]
        return name

    for one, other in similar:
        if (root := top(one)) != (over := top(other)):
            above[root] = over
    met = sum(dropped.get(one, one) == dropped.get(other, other) for one, other in similar)
    right = sum(top(name) == top(kept) for name, kept in dropped.items())
    return met / len(similar), right / len(dropped)


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
    return Row.of_speed(
        what,
        unit="MB/s",
        amount=size,
        pairs=found,
        note=f"{size:.2f} MB; 120 hashes of word 5-grams, text in memory",
    )


if __name__ == "__main__":
    main("near_duplicates", __doc__, measure)
