"""Repeated lines all-in: Parquet shards read, lines counted and compared, cuts written.

Megabytes of UTF-8 a second of one core and peak resident memory, on 81 MB and (not with --quick) 911 MB. A text is
lines of the standard library's documentation; most get a word of seeded noise, the others are as they stand, and in
many texts. Of the smaller corpus the number of lines that are cut is compared with a plain count in one dict.
"""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.near_corpus import Family, write
from benchmarks.program import ROOT, main, scratch
from benchmarks.quality import texts
from benchmarks.table import Row, at_least, at_most
from tutti.dedup.lines import MOST
from tutti.records.canonical import keyed_bytes

SMALL, LARGE = 81_500_000, 911_000_000
LINES, AS_IT_STANDS = 60, 0.2
SPEED, MEMORY = at_least(15), at_most(300)


def measure(quick: bool) -> list[Row]:
    """Speed and memory for each size, and whether the count is right."""
    lines = [line for text in texts() for line in text.split("\n") if any(map(str.isalnum, line))]
    return [row for size in ((SMALL,) if quick else (SMALL, LARGE)) for row in _all_in(lines, size)]


def corpus(lines: Sequence[str], size: int, seed: int = 1) -> Iterator[str]:
    """Texts of `size` bytes in all."""
    source = random.Random(seed)
    made = 0
    while made < size:
        drawn = source.choices(lines, k=LINES)
        text = "\n".join(
            line if source.random() < AS_IT_STANDS else f"{line} {source.getrandbits(60):x}" for line in drawn
        )
        made += len(text.encode())
        yield text


def _all_in(lines: Sequence[str], size: int) -> list[Row]:
    written = 0

    def watched() -> Iterator[Family]:
        nonlocal written
        for number, text in enumerate(corpus(lines, size)):
            written += len(text.encode())
            yield Family(((keyed_bytes("lines", number.to_bytes(8)).hex(), text),))

    with scratch("lines") as folder:
        shards, work = write(watched(), Path(folder)), Path(folder) / "work"
        work.mkdir()
        command = [sys.executable, "-m", "benchmarks.lines_run", *map(str, (work, *shards))]
        done = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    megabytes = written / 1e6
    what = f"repeated lines in {megabytes:.0f} MB"
    cut = f"{done['units']} lines, {done['bytes'] / 1e6:.1f} MB, cut out of {done['documents']} documents"
    rows = [
        Row(
            what,
            unit="MB/s",
            ours=megabytes / done["core"],
            goal=SPEED,
            note=f"{cut}; {done['wall']:.1f} s on the wall",
        ),
        Row(f"{what}: memory", unit="MB", ours=done["megabytes"], goal=MEMORY),
    ]
    if size == SMALL:
        counted = done["units"] / _plainly(lines, size)
        rows.append(Row(f"{what}: lines cut beside a plain count", ours=counted, note="1: the same"))
    return rows


def _plainly(lines: Sequence[str], size: int) -> int:
    """How many lines are in more than MOST texts, by one dict over all of them."""
    holders = Counter(line for text in corpus(lines, size) for line in {_said(line) for line in text.split("\n")})
    return sum(holders[_said(line)] > MOST for text in corpus(lines, size) for line in text.split("\n"))


def _said(line: str) -> str:
    return " ".join(line.split())


if __name__ == "__main__":
    main("repeated_lines", __doc__, measure)
