"""The stage `ingest`: reads documents out of a folder or of what was crawled.

A recipe that decontaminates has a second one, `evaluation`, which reads the texts to keep out.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tutti.chassis.errors import InvalidField
from tutti.contracts.ingest.v1 import Crawl, Ingest, IngestSpec
from tutti.corpus.documents.stages import IngestBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import MAKE_RUN, Folder, Role, StageContext, StageDef
from tutti.pipeline.recipes.sections import MOST_REJECTED, IngestSection
from tutti.pipeline.recipes.values import Measure, Resident
from tutti.pipeline.recipes.view import View
from tutti.records.counts import counted
from tutti.records.manifest import Manifest
from tutti.web.formats import REMEDIES, remedy

NO_TEXTS = {
    "binary",
    "data_directory",
    "hidden",
    "link_broken",
    "link_outside",
    "link_repeated",
    "not_a_file",
    "not_ok",
    "repeated",
}
"""Reasons for which files are left out that nobody expects to be read, or that were read at another place."""
SHOWN = 3
"""The number of reasons in a summary if none has the majority."""


class IngestStage(StageDef):
    name = "ingest"
    work = Ingest
    section = IngestSection
    brings_pages = True
    surveyed = True
    roles = (Role("pages", Crawl, default="crawl", required=False),)
    measured = Measure(MAKE_RUN, 1.3, 649, 857_000)
    resident = Resident("each process of benchmarks.reading", 376_000_000)

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        path = view.section(IngestSection).path
        if bool(path) == ("pages" in filled):
            yield view.refused(
                "path",
                seen="a folder and a crawl" if path else "nothing",
                expected="a folder of pages, or a crawl, and one of them alone",
            )
        if "\0" in path:
            yield view.refused("path", seen=path, expected="a path without a NUL character")

    def folder(self, view: View) -> Folder | None:
        section = view.section(IngestSection)
        read = section.model_dump(include={"path", "limit", "max_file_bytes", "text_field", "most_rejected"})
        return Folder("path", **read) if section.path else None

    def request(self, asked: StageContext) -> IngestSpec:
        section, engine, pages = asked.view.section(IngestSection), asked.view.recipe.engine, asked.get("pages")
        read = asked.source if pages is None else None
        return IngestSpec(
            input_path=read.path if read else "",
            manifest_key=pages.manifest_key if pages else "",
            content_digest=pages.content_digest if pages else "",
            max_file_bytes=section.max_file_bytes,
            limit=section.limit,
            logic_version=asked.logic_version,
            input_digest=read.input_digest if read else "",
            text_field=section.text_field,
            mask=sorted(set(section.mask)),
            classifiers=sorted(set(section.classifiers)),
            engine="" if engine == "local" else engine,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        section = asked.view.section(IngestSection)
        return {
            "max_file_bytes": section.max_file_bytes,
            "limit": section.limit,
            "text_field": section.text_field,
            "mask": sorted(set(section.mask)),
            **({"classifiers": sorted(set(section.classifiers))} if section.classifiers else {}),
        }

    def questions(self, view: View) -> Iterator[View]:
        if view.section(IngestSection).mask or view.recipe.engine != "local":
            yield view

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        ingest = IngestBody.read(manifest)
        yield from (Expected(shard.blob, shard.info.bytes, shard.info.bytes_digest) for shard in ingest.shards)
        yield from map(Expected.by_digest, (ingest.rejections, *ingest.measures))

    def pages(self, work: Any) -> int:
        return max(int(work.files), int(work.documents) + int(work.rejected))

    def objection(self, view: View, work: Any) -> str:
        """More of what looked like text was rejected than the recipe allows."""
        counts = {each.reason: each.pages for each in work.left_out if each.reason not in NO_TEXTS}
        rejected = sum(counts.values())
        share = rejected / max(1, rejected + work.documents)
        most, key = view.section(IngestSection).most_rejected, view.key("most_rejected")
        if share <= most:
            return _dropped(work, key) if most <= MOST_REJECTED else ""
        reasons = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(counts.items(), key=lambda each: -each[1])
        )
        todo = f"{remedy(counts)} " if remedy(counts) else ""
        return (
            f"{share:.0%} of {rejected + work.documents:,} pages and records were rejected ({reasons}); expected at "
            f"most {most:.0%} ({key}). {todo}`tutti documents rejected` lists them; raise {key} to train on the others"
        )

    def summary(self, work: Any) -> str:
        if not work.rejected:
            return f"{counted(work.documents, 'document')} (0 rejected)"
        share = work.rejected / (work.rejected + work.documents)
        todo = remedy({each.reason: each.pages for each in work.left_out}).rstrip(".")
        return (
            f"{counted(work.documents, 'document')} ({work.rejected:,} rejected, {share:.1%}{_why(work)}"
            f"{': ' if todo else ''}{todo[:1].lower()}{todo[1:]})"
        )


def _why(work: Any) -> str:
    """The reason of most rejections of an ingest; if none has the majority, the counts of the most frequent ones."""
    ordered = sorted(work.left_out, key=lambda each: (-each.pages, each.reason))
    if ordered and 2 * ordered[0].pages > work.rejected:
        return f", {'all' if ordered[0].pages == work.rejected else 'most'} as {ordered[0].reason}"
    return "".join(f", {each.pages:,} as {each.reason}" for each in ordered[:SHOWN])


def _dropped(work: Any, key: str) -> str:
    """The objection to files of which no record has a text; "" if there are none."""
    if not work.dropped:
        return ""
    first, more = work.dropped[0], len(work.dropped) - 1
    others = f", and of {more:,} more files" if more else ""
    return (
        f"none of the {first.records:,} records of {first.path}{others} has a text: {first.detail}. "
        f"{REMEDIES['no_text']} Or take the file out of the folder, or raise {key} to train on the others"
    )


STAGE = IngestStage()
