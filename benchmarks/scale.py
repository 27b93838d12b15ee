"""What a petabyte of text would take, from what is measured here: `python -m benchmarks.scale [--set NAME=VALUE ...]`.

Measured, in this run: core seconds and bytes of reading archives and of tokenization, by byte; for duplicates core
seconds a byte of the plan in Daft in one process, and for each exchange the bytes of its rows, by document. Everything
else is an assumption with a name, printed beside the result, and can be set.
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
from benchmarks.streams import Reading, Tokenization, reading, tokenization
from tutti.dedup import onray
from tutti.dedup.engine import Engine
from tutti.dedup.reading import Placed
from tutti.dedup.steps import Step
from tutti.records.canonical import file_digest

SIZE = 20_000_000
NOT_WRITTEN = "(on many nodes: not implemented)"
NAMES = {
    "chosen": "anti-join: rejected documents",
    "equal": "anti-join: by equal text",
    "banded": "anti-join: remaining documents, to their shards",
    "met": "by band",
    "small_star": "by component: small stars",
    "large_star": "by component: large stars",
    "labelled": "by component: labels",
    "grouped": "by component: groups",
    "texts": "by component: ids of texts to verify, to their shards",
    "similar": "by component: verification",
    "closest": "by document: result",
}


@dataclass(frozen=True)
class Assumed:
    """What is not measured here."""

    text_bytes: float = 1e15  # UTF-8, after extraction and filters
    document_bytes: float = 5_000  # the mean of a web page's main text
    html_bytes: float = 60_000  # of a page of the web, uncompressed
    pages: float = 3  # that are read for one document which rules keep
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
    reading: Reading
    tokenization: Tokenization


@dataclass(frozen=True)
class Stage:
    """What one stage takes at the size assumed: core hours; bytes that are read, written, and moved between nodes."""

    name: str
    core_hours: float
    read: float
    written: float
    shuffled: float = 0.0

    def hours(self, assumed: Assumed) -> tuple[float, float, float]:
        """Of computing, of moving rows, of reading and writing: on all nodes together."""
        stored = (self.read + self.written) * 8 / (assumed.nodes * assumed.store_gbit * 1e9) / 3600
        moved = self.shuffled * 8 / (assumed.nodes * assumed.network_gbit * 1e9) / 3600
        return self.core_hours / (assumed.nodes * assumed.cores), moved, stored


def measured() -> Measured:
    """One search in this process for the bytes, after one for the time; then the other stages."""
    pages = ["\n".join(" ".join(words(line)) for line in text.split("\n")) for text in texts()]
    with scratch("scale") as place:
        folder = Path(place)
        shards, size = put(pages, SIZE, folder)
        own = Placed(tuple((shard, file_digest(folder / "blobs" / shard)) for shard in shards))

        def search(engine: Engine) -> int:
            found, _ = onray.search(engine, f"file://{folder}/blobs", own, 0.8, Path(mkdtemp(dir=folder)))
            return found.documents + found.duplicates

        search(Engine(4))
        begun = time.process_time()
        documents = search(Engine(4))
        seconds = time.process_time() - begun
        search(Metered(4))
        once = {name: BYTES[name] / CALLS[name] / documents for name in NAMES}
        return Measured(seconds / size, once, documents, size, reading(folder), tokenization(folder))


def shuffled(found: Measured, assumed: Assumed) -> dict[str, tuple[int, float]]:
    """Of each exchange of the search for duplicates how often it is made, and the bytes of all times."""
    documents = assumed.text_bytes / assumed.document_bytes
    # Components are made of candidates, then of what is similar.
    stars = {"small_star": 2 * (assumed.rounds + 1), "large_star": 2 * assumed.rounds}
    made = {}
    for name in NAMES:
        each = found.row_bytes[name]
        if name == "similar":  # texts travel: what there is of them goes with the bytes of a document
            each *= assumed.document_bytes / (found.text_bytes / found.documents)
        made[name] = (stars.get(name, 1), each * documents * stars.get(name, 1))
    return made


def stages(found: Measured, assumed: Assumed) -> list[Stage]:
    """Every stage on the way from archives to tokens."""
    text, documents = assumed.text_bytes, assumed.text_bytes / assumed.document_bytes
    html = documents * assumed.pages * assumed.html_bytes
    hours = 1 / (assumed.busy * 3600)
    token_bytes = 2 if found.tokenization.vocabulary <= 1 << 16 else 4
    return [
        Stage(
            f"reading: archives to document shards {NOT_WRITTEN}",
            found.reading.core_seconds * html * hours,
            html * found.reading.archive_bytes,
            text * assumed.compressed,
        ),
        Stage(
            "duplicates",
            found.core_seconds * assumed.overhead * text * hours,
            text * assumed.compressed * 2,  # texts are read twice
            0.0,
            sum(size for _, size in shuffled(found, assumed).values()),
        ),
        Stage(
            f"tokenization: document shards to token shards {NOT_WRITTEN}",
            found.tokenization.core_seconds * text * hours,
            text * assumed.compressed,
            text / found.tokenization.bytes_a_token * token_bytes,
        ),
    ]


def table(found: Measured, assumed: Assumed) -> list[str]:
    """Lines of Markdown."""
    documents, exchanges = assumed.text_bytes / assumed.document_bytes, shuffled(found, assumed)
    tokens = assumed.text_bytes / found.tokenization.bytes_a_token
    lines = [
        f"Measured on {machine()}:",
        "",
        f"- reading: {1 / found.reading.core_seconds / 1e6:.1f} MB of HTML/s on one core, over "
        f"{found.reading.html / 1e6:.0f} MB; an archive takes {found.reading.archive_bytes:.2f} bytes per byte of "
        f"HTML, a document shard {found.reading.shard_bytes:.2f} per byte of text",
        f"- duplicates: {1 / found.core_seconds / 1e6:.1f} MB/s on one core, over {found.text_bytes / 1e6:.0f} MB in "
        f"{found.documents} documents, half of them copies with some words changed",
        f"- tokenization: {1 / found.tokenization.core_seconds / 1e6:.1f} MB/s on one core, over "
        f"{found.tokenization.text / 1e6:.0f} MB; {found.tokenization.bytes_a_token:.2f} bytes per token with a "
        f"vocabulary of {found.tokenization.vocabulary:,}",
        "",
        f"At the assumed size: {documents:,.0f} documents, {tokens:.3g} tokens. Hours are for {assumed.nodes} nodes "
        f"with {assumed.cores} cores each:",
        "",
        "| stage | core hours | hours computing | hours shuffling | hours reading and writing | read | written "
        "| US dollars |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    rows = [(each, each.hours(assumed)) for each in stages(found, assumed)]
    lines += [_row(each.name, each.core_hours, hours, each.read, each.written, assumed) for each, hours in rows]
    sums = (sum(each[0] for _, each in rows), sum(each[1] for _, each in rows), sum(each[2] for _, each in rows))
    every = [each for each, _ in rows]
    lines += [
        _row(
            "**total, if implemented**",
            sum(each.core_hours for each in every),
            sums,
            sum(each.read for each in every),
            sum(each.written for each in every),
            assumed,
        ),
        "",
        f"In sequence, this takes {sum(sums):,.1f} hours, or {sum(sums) * assumed.nodes:,.0f} node hours. The search "
        "for duplicates moves this data between nodes:",
        "",
        "| exchange | bytes per document | times | at the assumed size |",
        "|---|---:|---:|---:|",
    ]
    for name, (count, size) in exchanges.items():
        lines.append(f"| {NAMES[name]} | {found.row_bytes[name]:,.0f} | {count} | {size / 1e12:,.0f} TB |")
    moved = [size for _, size in exchanges.values()]
    lines += [
        f"| **total shuffled** | | | **{sum(moved) / 1e12:,.0f} TB** |",
        "",
        f"Disk per node for the rows of one exchange: {max(moved) / assumed.nodes / 1e12:,.2f} TB.",
        "",
        "Assumed: " + ", ".join(f"`{name}` {value:g}" for name, value in asdict(assumed).items()) + ".",
    ]
    return lines


def _row(
    name: str, core_hours: float, hours: tuple[float, float, float], read: float, made: float, assumed: Assumed
) -> str:
    dollars = sum(hours) * assumed.nodes * assumed.node_hour_usd
    spent = " | ".join(f"{each:,.1f}" for each in hours)
    return f"| {name} | {core_hours:,.0f} | {spent} | {read / 1e12:,.0f} TB | {made / 1e12:,.0f} TB | {dollars:,.0f} |"


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
