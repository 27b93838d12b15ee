"""Many runs on one platform: what its host grows by, what rows they leave, and how soon it starts again with so many.

Every run is the tiny recipe over three pages, one of which no other run reads, so that each passes all stages.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil

from benchmarks.platforms import Platform, up
from benchmarks.program import ROOT, WentWrong, main, scratch
from benchmarks.table import Row, at_most

RUNS, QUICK_RUNS = 200, 40
FIRST = 20
"""After so many runs everything was used once: caches are filled, libraries loaded."""
RUN_SECONDS = 300
NEWEST = "seq IN (SELECT max(seq) FROM outbox WHERE kind = 'state' GROUP BY topic, subject)"
PAGE = "<h1>The {name} page</h1><p>{text}</p>"
GROWTH_MIB, START_SECONDS = at_most(20.0), at_most(5.0)


def measure(quick: bool) -> list[Row]:
    """Raises WentWrong where a run does not end well."""
    runs = QUICK_RUNS if quick else RUNS
    with scratch("stack-runs") as place:
        folder = Path(place)
        pages = folder / "pages"
        pages.mkdir()
        for name in ("first", "second"):
            _write(pages, name)
        with up(folder / "data") as platform:
            begun = 0.0
            for number in range(runs):
                _run(platform, pages, number)
                if number + 1 == FIRST:
                    begun = _host_mib(platform)
            ended = _host_mib(platform)
        rows = list(_rows(folder / "data", runs))
        with up(folder / "data") as platform:
            serving = platform.serving
    note = f"private memory after {FIRST} and after {runs} runs: {begun:,.0f} and {ended:,.0f} MiB"
    return [
        Row(f"growth of the host, run {FIRST} to {runs}", "MiB", ours=ended - begun, goal=GROWTH_MIB, note=note),
        Row(f"start with {runs} runs", "s", ours=serving, goal=START_SECONDS, note="until overall health is SERVING"),
        *rows,
    ]


def _rows(data_dir: Path, runs: int) -> Iterator[Row]:
    """Yield the bytes of the rows that a run leaves, by what deletes them; no platform uses the directory."""
    sent = newest = others = records = 0
    for path in sorted((data_dir / "db").glob("*.db")):
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            sent += _bytes(database, "outbox", f"NOT {NEWEST}")
            newest += _bytes(database, "outbox", NEWEST)
            tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name != 'outbox'")
            others += sum(_bytes(database, name) for (name,) in tables.fetchall())
    with closing(sqlite3.connect(f"{(data_dir / 'log' / 'events.db').as_uri()}?mode=ro", uri=True)) as log:
        records = _bytes(log, "records")
    for what, size in (
        ("sent events, which are deleted by age", sent),
        ("the newest event of each resource, which stays", newest),
        ("records of the event log", records),
        ("other rows, most of which stay", others),
    ):
        yield Row(f"{what}, a run", "KiB", ours=size / runs / 1024, note="without indexes")


def _bytes(database: sqlite3.Connection, table: str, which: str = "true") -> int:
    """The bytes of the values in rows of a table."""
    names = [name for _, name, *_ in database.execute(f'PRAGMA table_info("{table}")')]
    size = " + ".join(f'coalesce(length(CAST("{name}" AS BLOB)), 0)' for name in names)
    (total,) = database.execute(f'SELECT coalesce(sum({size}), 0) FROM "{table}" WHERE {which}').fetchone()  # noqa: S608
    return int(total)


def _write(pages: Path, name: str, about: str = "") -> None:
    text = " ".join(f"It says {word} to its reader on the {name} page {about}." for word in range(40))
    (pages / f"{name}.html").write_text(PAGE.format(name=name, text=text))


def _run(platform: Platform, pages: Path, number: int) -> None:
    _write(pages, "changing", f"of run {number}")
    sets = (f"input.path={pages}", f"train.seed={number}", "train.steps=2", "train.ranks=1", "index=true")
    command = [Path(sys.executable).with_name("tutti"), "run", ROOT / "recipes" / "tiny.yaml"]
    given = [part for each in sets for part in ("--set", each)]
    done = subprocess.run(
        [*map(str, command), *given, "--data-dir", str(platform.data_dir)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise WentWrong(f"run {number} ended with {done.returncode}: {done.stderr.strip()[-500:]}")


def _host_mib(platform: Platform) -> float:
    (host,) = (each for each in platform.processes() if "tutti.platform.entry" in each.cmdline())
    return float(psutil.Process(host.pid).memory_full_info().uss) / 2**20


if __name__ == "__main__":
    main("stack_runs", __doc__, measure)
