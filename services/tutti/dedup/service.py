"""The dedup service: drops duplicates from a fixed set of document shards.

Promises: of documents with the same text, or nearly the same where that is asked for, the one with the smallest id
stays, whatever the order or number of shards. Repeated lines, and those that C4 removes, are cut out of the texts of
those that stay.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tutti.backbone import Blobs
from tutti.chassis import version
from tutti.chassis.rpc import standard
from tutti.chassis.service import Host, Service
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish, put_file
from tutti.contracts.dedup.v1 import Dedup, DedupSpec
from tutti.contracts.dedup.v1.dedup_pb2 import DESCRIPTOR
from tutti.corpus.counts import statistics
from tutti.corpus.documents import decisions, duplicates
from tutti.corpus.documents.decisions import CLEANED_RULE, REPEATED_RULE
from tutti.corpus.documents.stages import DedupBody, DocumentShardEntry, FilterBody, IngestBody
from tutti.corpus.tokens.dataset import Rejected
from tutti.dedup.rpc import DedupApi, wanted
from tutti.dedup.settings import DedupSettings
from tutti.dedup.version import LOGIC_VERSION
from tutti.native.deferred import deferred
from tutti.platform.cluster import RAY
from tutti.records.manifest import Kind
from tutti.staging import fetching
from tutti.upkeep import kernels

if TYPE_CHECKING:
    from tutti.dedup import clusters, contamination, exact, kernel, lines, onray, reading, units
    from tutti.dedup import shards as texts
    from tutti.dedup.clusters import Compared
    from tutti.dedup.lines import LineLimits, Lines
    from tutti.dedup.reading import Placed
    from tutti.dedup.shards import Texts
else:  # with them come numpy and pyarrow
    clusters, contamination, exact, kernel, lines, onray, reading, texts, units = (
        deferred(f"tutti.dedup.{name}")
        for name in ["clusters", "contamination", "exact", "kernel", "lines", "onray", "reading", "shards", "units"]
    )


def staged(
    blobs: Blobs, entries: tuple[DocumentShardEntry, ...], folder: Path, without: frozenset[str] = frozenset()
) -> Texts:
    """Fetch the documents of shards, but for some. Raises WorkFailed."""
    folder.mkdir()
    return texts.Texts(tuple(path for path, _ in fetching.shards(blobs, entries, folder)), without)


def placed(entries: tuple[DocumentShardEntry, ...], without: frozenset[str] = frozenset()) -> Placed:
    """The documents of shards where they are, but for some."""
    shards = tuple((each.blob, each.info.bytes_digest) for each in entries)
    return reading.Placed(shards, without, sum(each.info.documents for each in entries))


Held = TypeVar("Held", "Texts", "Placed")
Hold = Callable[[tuple[DocumentShardEntry, ...], str, frozenset[str]], Held]
"""Takes shards, a name for them, and the ids of documents that are left out."""


def others(blobs: Blobs, spec: DedupSpec, hold: Hold[Held]) -> Compared[Held]:
    """The collections to compare the documents with. Raises WorkFailed."""
    earlier = []
    for number, each in enumerate(spec.against):
        kept = DedupBody.read(fetching.manifest(blobs, each.manifest_key, each.content_digest, Kind.DEDUP))
        left_out = fetching.rejected(blobs, kept.decisions) | fetching.dropped(blobs, kept.clusters)
        without = left_out | fetching.retracted(blobs, each.retracted_key)
        earlier.append(hold(kept.shards, f"earlier-{number}", without))
    if not spec.HasField("evaluation"):
        return clusters.Compared(earlier=tuple(earlier))
    key, digest = spec.evaluation.manifest_key, spec.evaluation.content_digest
    read = IngestBody.read(fetching.manifest(blobs, key, digest, Kind.INGEST))
    if read.rejected:
        reasons = ", ".join(f"{each.count} {each.reason}" for each in read.rejected)
        raise WorkFailed(
            f"not all of dedup.decontaminate.path could be read as text ({reasons}), and what is not read is not kept "
            "out; mend it, or take it out of the folder"
        )
    sought = contamination.Sought(spec.evaluation_words or contamination.WORDS, spec.evaluation_share)
    return clusters.Compared(hold(read.shards, "evaluation", frozenset()), sought, tuple(earlier))


def nothing_stays(found: clusters.ClusterResult) -> str:
    """A message that says why every document was left out."""
    return (
        f"no document stays: {found.contaminated} are contaminated by evaluation texts, {found.earlier} are in an "
        "earlier dataset; change dedup.decontaminate or dedup.against of the recipe"
    )


def cut(own: Texts, dropped: Path, wanted: LineLimits | None, clean: bool, folder: Path) -> Lines:
    """Cut documents, without those that a file of duplicates drops."""
    folder.mkdir()
    gone = frozenset(duplicates.decode(dropped.read_bytes())["doc_id"].to_pylist())
    stay = replace(own, without=own.without | gone)
    return lines.find(stay, wanted, folder, clean=clean, workers=len(os.sched_getaffinity(0)))


def nothing_is_left(spec: DedupSpec) -> str:
    """A message that says why every document that is not a duplicate was left out."""
    asked, gone, keys = spec.lines, list[str](), list[str]()
    if spec.clean:
        gone.append("the lines that C4 removes")
        keys.append("quality.clean")
    if spec.HasField("lines"):
        gone.append(f"the {asked.unit}s that are in more than {asked.most} documents")
        keys.append("dedup.lines")
    left = f"has fewer than {asked.left} characters" if asked.left else "is empty"
    without, change = " and ".join(gone), " or ".join(keys)
    return f"no document stays: without {without} each of them {left}; change {change} of the recipe"


def decided(blobs: Blobs, before: str, made: Lines | None, left: int, scratch: Path) -> str:
    """Add decisions about documents that cuts left too short, and return the blob; `before` if there are none."""
    if made is None or not (made.short or made.bare):
        return before
    earlier = [decisions.decode(fetching.small(blobs, before))] if before else []
    path = scratch / "decisions.parquet"
    bare = decisions.short([(doc_id, 0) for doc_id in made.bare], 1, CLEANED_RULE)
    decisions.write(decisions.together(*earlier, decisions.short(made.short, left), bare), path)
    return put_file(blobs, "dedup/decisions", path)


def build(host: Host) -> Service:
    settings = host.settings(DedupSettings)

    def find(
        context: TaskContext, spec: DedupSpec, chosen: FilterBody, scratch: Path
    ) -> tuple[clusters.ClusterResult, Lines | None]:
        rejected = fetching.rejected(host.blobs, chosen.decisions)
        asked = wanted(spec.lines) if spec.HasField("lines") else None
        work = scratch / "work"
        work.mkdir()
        try:
            if spec.engine == RAY:
                there = others(host.blobs, spec, lambda entries, _, without: placed(entries, without))
                every = placed(chosen.shards, rejected)
                return context.pool(onray.find, settings, every, spec.near, work, there, asked, clean=bool(spec.clean))
            own = staged(host.blobs, chosen.shards, scratch / "own", rejected)
            here = others(
                host.blobs, spec, lambda entries, name, without: staged(host.blobs, entries, scratch / name, without)
            )
            found = context.pool(clusters.find, own, spec.near, work, here)
        except (exact.ConflictingDocument, contamination.TooManyTexts, reading.Unreadable) as error:
            raise WorkFailed(str(error)) from error
        if not found.documents or not (spec.clean or asked):
            return found, None
        return found, context.pool(cut, own, found.path, asked, bool(spec.clean), scratch / "lines")

    def run(context: TaskContext, dedup: Dedup) -> Outcome:
        spec = dedup.spec
        chosen = FilterBody.read(
            fetching.manifest(host.blobs, spec.manifest_key, spec.content_digest, Kind.FILTER, Kind.INGEST)
        )
        with tempfile.TemporaryDirectory(prefix="tutti-dedup-") as scratch:
            found, made = find(context, spec, chosen, Path(scratch))
            if not found.documents:
                raise WorkFailed(nothing_stays(found))
            gone = {REPEATED_RULE: len(made.short), CLEANED_RULE: len(made.bare)} if made else {}
            short = sum(gone.values())
            if short == found.documents:
                raise WorkFailed(nothing_is_left(spec))
            kept = put_file(host.blobs, "dedup/clusters", found.path)
            cuts = put_file(host.blobs, "dedup/cuts", made.path) if made else ""
            told = decided(host.blobs, chosen.decisions, made, spec.lines.left, Path(scratch))
        body = DedupBody(
            shards=chosen.shards,
            decisions=told,
            clusters=kept,
            documents=found.documents - short,
            duplicates=found.duplicates,
            near_duplicates=found.near,
            cluster_count=found.clusters,
            rejected=(*chosen.rejected, *(Rejected(rule, count) for rule, count in gone.items() if count)),
            rejections=chosen.rejections,
            contaminated=found.contaminated,
            earlier=found.earlier,
            compared=tuple(each.content_digest for each in [spec.evaluation, *spec.against] if each.content_digest),
            cuts=cuts,
            cut_documents=made.documents if made else 0,
            cut_units=made.units if made else 0,
            cut_bytes=made.bytes if made else 0,
            cleaned_lines=made.cleaned if made else 0,
        )
        result = publish(host.blobs, "dedup", body.manifest(producer=version.producer("dedup")), data_bytes=0)

        def fill(unit: Unit, dedup: Dedup) -> None:
            dedup.result.CopyFrom(result)
            dedup.documents, dedup.duplicates, dedup.clusters = body.documents, body.duplicates, body.cluster_count
            dedup.near_duplicates = body.near_duplicates
            dedup.contaminated, dedup.earlier = body.contaminated, body.earlier
            dedup.cut_documents, dedup.cut_units, dedup.cut_bytes = body.cut_documents, body.cut_units, body.cut_bytes
            dedup.cleaned_lines, dedup.short = body.cleaned_lines, short
            for example in made.examples if made else ():
                dedup.repeated.add(text=example.text, documents=example.documents)

        return fill

    work = Work(host, "dedups", Dedup, run, LOGIC_VERSION)
    natives = (lambda: kernel.native(), lambda: units.native(), statistics.native)
    return Service(
        name="dedup",
        reads=["ingest"],
        resources=[work.resource],
        serves=[standard.served(DESCRIPTOR.services_by_name["DedupService"], DedupApi(host, work, settings), work)],
        tasks=[work.task()],
        remakes=[work],
        export=work.export,
        checks=[kernels.check("duplicates are found", "by Python, some fifteen times slower", natives)],
        migrations=Path(__file__).with_name("migrations"),
    )
