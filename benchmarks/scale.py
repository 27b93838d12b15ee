"""What a petabyte of text would take, from what is measured here: `python -m benchmarks.scale [--set NAME=VALUE ...]`.

Measured, in this run: core seconds a byte of the plan in Daft in one process, and for each exchange the bytes of its
rows, by document. Everything else is an assumption with a name, printed beside the result, and can be set.
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import mkdtemp

import daft

from benchmarks.engines import put
from benchmarks.near_duplicates import words
from benchmarks.program import machine, scratch
from benchmarks.quality import texts
from tutti.corpus.canonical import file_digest
from tutti.dedup import onray
from tutti.dedup.engine import Engine
from tutti.dedup.steps import Step

SIZE = 20_000_000
NAMES = {
    "chosen": "anti-join: what is rejected",
    "equal": "anti-join: by equal text",
    "banded": "anti-join: what stays, to its shard",
    "met": "by band",
    "small_star": "by component: small stars",
    "large_star": "by component: large stars",
    "labelled": "by component: labels",
    "grouped": "by component: groups",
    "texts": "by component: whose texts are wanted, to their shards",
    "similar": "by component: verification",
    "closest": "by document: result",
}


@dataclass(frozen=True)
class Assumed:
    """What is not measured here."""

    text_bytes: float = 1e15  # UTF-8, after extraction and filters
    document_bytes: float = 5_000  # the mean of a web page's main text
    compressed: float = 0.4  # bytes of a document shard for a byte of text
    nodes: int = 250
    cores: int = 64  # of a node
    busy: float = 0.7  # share of the cores' time that is spent on the work; the rest waits for others
    network_gbit: float = 25  # a second, in and out of a node
    store_gbit: float = 10  # a second, from the blob store into a node
    node_hour_usd: float = 2.5  # 64 cores, 256 GB, spot
    rounds: int = 6  # of large and small stars, for components of a web corpus
    overhead: float = 2  # core seconds on Ray for one in a single process; benchmarks.engines measures it


class Metered(Engine):
    """Counts the rows that go into each kind of step, and their bytes."""

    def together(self, kinds: Iterable[daft.DataFrame], by: str, step: Step, *, apart: bool = False) -> daft.DataFrame:
        kinds = list(kinds)
        name = getattr(getattr(step.does, "func", step.does), "__name__", "")
        BYTES[name] += sum(kind.to_arrow().nbytes for kind in kinds)
        CALLS[name] += 1
        return super().together(kinds, by, step, apart=apart)


BYTES: Counter[str] = Counter()
CALLS: Counter[str] = Counter()


@dataclass(frozen=True)
class Measured:
    """Of one search: core seconds a byte of text, bytes a document of each exchange once, documents, bytes of text."""

    core_seconds: float
    row_bytes: dict[str, float]
    documents: int
    text_bytes: int


def measured() -> Measured:
    """One search in this process for the bytes, after one for the time."""
    pages = ["\n".join(" ".join(words(line)) for line in text.split("\n")) for text in texts()]
    with scratch("scale") as place:
        folder = Path(place)
        shards, size = put(pages, SIZE, folder)
        places = [(shard, file_digest(folder / "blobs" / shard)) for shard in shards]

        def search(engine: Engine) -> int:
            found = onray.search(engine, f"file://{folder}/blobs", places, frozenset(), 0.8, Path(mkdtemp(dir=folder)))
            return found.documents + found.duplicates

        search(Engine(4))
        begun = time.process_time()
        documents = search(Engine(4))
        seconds = time.process_time() - begun
        search(Metered(4))
    once = {name: BYTES[name] / CALLS[name] / documents for name in NAMES}
    return Measured(seconds / size, once, documents, size)


def table(found: Measured, assumed: Assumed) -> list[str]:
    """Lines of Markdown."""
    documents = assumed.text_bytes / assumed.document_bytes
    # Components are made of candidates, then of what is similar.
    stars = {"small_star": 2 * (assumed.rounds + 1), "large_star": 2 * assumed.rounds}
    shuffled = {}
    for name in NAMES:
        each = found.row_bytes[name]
        if name == "similar":  # texts travel: what there is of them goes with the bytes of a document
            each *= assumed.document_bytes / (found.text_bytes / found.documents)
        shuffled[name] = each * documents * stars.get(name, 1)
    core_hours = found.core_seconds * assumed.overhead * assumed.text_bytes / assumed.busy / 3600
    read = assumed.text_bytes * assumed.compressed * 2  # texts are read twice
    computing = core_hours / (assumed.nodes * assumed.cores)
    moving = sum(shuffled.values()) * 8 / (assumed.nodes * assumed.network_gbit * 1e9) / 3600
    reading = read * 8 / (assumed.nodes * assumed.store_gbit * 1e9) / 3600
    hours = computing + moving + reading
    lines = [
        f"Measured on {machine()}:",
        "",
        f"- {1 / found.core_seconds / 1e6:.1f} MB/s of one core, over {found.text_bytes / 1e6:.0f} MB in "
        f"{found.documents} documents, of which half are copies with some words changed",
        "",
        "| exchange | bytes a document | times | at the size assumed |",
        "|---|---:|---:|---:|",
    ]
    for name, words_of in NAMES.items():
        each, count = found.row_bytes[name], stars.get(name, 1)
        lines.append(f"| {words_of} | {each:,.0f} | {count} | {shuffled[name] / 1e12:,.0f} TB |")
    lines += [
        f"| **all that is shuffled** | | | **{sum(shuffled.values()) / 1e12:,.0f} TB** |",
        "",
        "| it takes | |",
        "|---|---:|",
        f"| documents | {documents:,.0f} |",
        f"| core hours | {core_hours:,.0f} |",
        f"| hours of computing, on {assumed.nodes} nodes of {assumed.cores} cores | {computing:,.1f} |",
        f"| hours of moving rows | {moving:,.1f} |",
        f"| hours of reading {read / 1e12:,.0f} TB of shards | {reading:,.1f} |",
        f"| hours, one after the other | {hours:,.1f} |",
        f"| node hours | {hours * assumed.nodes:,.0f} |",
        f"| US dollars | {hours * assumed.nodes * assumed.node_hour_usd:,.0f} |",
        f"| disk for rows of one exchange, a node | {max(shuffled.values()) / assumed.nodes / 1e12:,.2f} TB |",
        "",
        "Assumed: " + ", ".join(f"`{name}` {value:g}" for name, value in asdict(assumed).items()) + ".",
    ]
    return lines


def main() -> None:
    given = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    known = {field.name: field for field in fields(Assumed)}
    given.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=f"of {', '.join(known)}")
    assumed = Assumed()
    for text in given.parse_args().set:
        name, _, value = text.partition("=")
        try:
            assumed = replace(assumed, **{name: type(getattr(assumed, name))(float(value))})
        except (AttributeError, TypeError, ValueError):
            given.error(f"--set {text}: expected NAME=NUMBER with a name of {', '.join(known)}")
    print("\n".join(table(measured(), assumed)))


if __name__ == "__main__":
    main()
