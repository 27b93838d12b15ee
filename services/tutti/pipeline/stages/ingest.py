"""The stage `ingest`: reads documents out of a folder or of what was crawled.

A recipe that decontaminates has a second one, `evaluation`, which reads the texts to keep out.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import Field

from tutti.chassis.errors import InvalidField
from tutti.contracts.ingest.v1 import Crawl, Ingest, IngestSpec
from tutti.corpus.documents.stages import IngestBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import MAKE_RUN, Flat, Folder, Question, Role, StageContext, StageDef
from tutti.pipeline.recipes.recipe import MOST_REJECTED, FileKeys, InputPart, Names, QualityPart, Recipe
from tutti.pipeline.recipes.values import Measure, Resident
from tutti.records.manifest import Manifest
from tutti.web.words import REMEDIES, remedy

EVALUATION = "evaluation"
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


class IngestSection(FileKeys):
    later = frozenset({"classifiers"})

    path: str = Field(
        default="",
        max_length=4096,
        description="folder of pages, relative to the folder of the recipe; or read a crawl",
    )
    mask: Names = Field(
        default_factory=list, description="personal data to replace with a placeholder; see quality.mask"
    )
    classifiers: Names = Field(
        default_factory=list, description="classifiers that label the documents; see quality.classifiers"
    )


class IngestStage(StageDef):
    name = "ingest"
    work = Ingest
    section = IngestSection
    flat_keys = ("input", "quality")
    brings_pages = True
    surveyed = True
    roles = (Role("pages", Crawl, default="crawl", required=False),)
    measured = Measure(MAKE_RUN, 1.3, 649, 857_000)
    resident = Resident("each process of benchmarks.reading", 376_000_000)

    def flat(self, recipe: Recipe) -> Mapping[str, Flat]:
        if not recipe.reads_pages:
            return {}
        found = {"ingest": Flat(recipe)}
        clean = recipe.dedup.decontaminate
        if clean is not None:
            texts = InputPart(path=clean.path, max_file_bytes=recipe.input.max_file_bytes, text_field=clean.text_field)
            view = recipe.model_copy(update={"input": texts, "quality": QualityPart(), "engine": "local"})
            found[EVALUATION] = Flat(
                view, place=EVALUATION, alone=True, keys={"input.path": "dedup.decontaminate.path"}
            )
        return found

    def apply(self, recipe: Recipe, section: IngestSection) -> Recipe:
        read = InputPart(**section.model_dump(exclude={"mask", "classifiers"}))
        quality = QualityPart(mask=section.mask, classifiers=section.classifiers)
        return recipe.model_copy(update={"input": read, "quality": quality})

    def problems(self, recipe: Recipe, filled: Collection[str]) -> Iterator[InvalidField]:
        """A named one reads a folder or a crawl; those of top-level keys are checked with their keys."""
        if recipe.input.crawl is None and bool(recipe.input.path) == ("pages" in filled):
            yield InvalidField(
                "input.path",
                seen="a folder and a crawl" if recipe.input.path else "nothing",
                expected="a folder of pages, or from: a crawl, and one of them alone",
            )
        if "\0" in recipe.input.path:
            yield InvalidField("input.path", seen=recipe.input.path, expected="a path without a NUL character")

    def folder(self, recipe: Recipe) -> Folder | None:
        if recipe.input.crawl is not None or not recipe.input.path:
            return None
        return Folder("input.path", recipe.input.path, recipe.input.limit)

    def request(self, asked: StageContext) -> IngestSpec:
        recipe, pages = asked.recipe, asked.get("pages")
        read = asked.source if pages is None else None
        return IngestSpec(
            input_path=read.path if read else "",
            manifest_key=pages.manifest_key if pages else "",
            content_digest=pages.content_digest if pages else "",
            max_file_bytes=recipe.input.max_file_bytes,
            limit=recipe.input.limit,
            logic_version=asked.logic_version,
            input_digest=read.input_digest if read else "",
            text_field=recipe.input.text_field,
            mask=sorted(set(recipe.quality.mask)),
            classifiers=sorted(set(recipe.quality.classifiers)),
            engine="" if recipe.engine == "local" else recipe.engine,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        recipe = asked.recipe
        return {
            "max_file_bytes": recipe.input.max_file_bytes,
            "limit": recipe.input.limit,
            "text_field": recipe.input.text_field,
            "mask": sorted(set(recipe.quality.mask)),
            **recipe.quality.scored(),
        }

    def questions(self, recipe: Recipe) -> Iterator[Question]:
        if recipe.quality.mask or recipe.engine != "local":
            yield Question(recipe, {"mask": "quality.mask", "engine": "engine"})

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        ingest = IngestBody.read(manifest)
        yield from (Expected(shard.blob, shard.info.bytes, shard.info.bytes_digest) for shard in ingest.shards)
        yield from map(Expected.by_digest, (ingest.rejections, *ingest.measures))

    def pages(self, work: Any) -> int:
        return max(int(work.files), int(work.documents) + int(work.rejected))

    def objection(self, recipe: Recipe, work: Any) -> str:
        """More of what looked like text was rejected than the recipe allows."""
        counts = {each.reason: each.pages for each in work.left_out if each.reason not in NO_TEXTS}
        rejected = sum(counts.values())
        share = rejected / max(1, rejected + work.documents)
        if share <= recipe.input.most_rejected:
            return _dropped(work) if recipe.input.most_rejected <= MOST_REJECTED else ""
        reasons = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(counts.items(), key=lambda each: -each[1])
        )
        todo = f"{remedy(counts)} " if remedy(counts) else ""
        return (
            f"{share:.0%} of {rejected + work.documents:,} pages and records were rejected ({reasons}); expected at "
            f"most {recipe.input.most_rejected:.0%} (input.most_rejected). {todo}`tutti documents rejected` "
            "lists them; raise input.most_rejected to train on the others"
        )

    def summary(self, work: Any) -> str:
        if not work.rejected:
            return f"{work.documents:,} documents (0 rejected)"
        most = max(work.left_out, key=lambda each: (each.pages, each.reason), default=None)
        share = work.rejected / (work.rejected + work.documents)
        why = f", most as {most.reason}" if most else ""
        todo = remedy({each.reason: each.pages for each in work.left_out}).rstrip(".")
        return (
            f"{work.documents:,} documents ({work.rejected:,} rejected, {share:.1%}{why}"
            f"{': ' if todo else ''}{todo[:1].lower()}{todo[1:]})"
        )


def _dropped(work: Any) -> str:
    """The objection to files of which no record has a text; "" if there are none."""
    if not work.dropped:
        return ""
    first, more = work.dropped[0], len(work.dropped) - 1
    others = f", and of {more:,} more files" if more else ""
    return (
        f"none of the {first.records:,} records of {first.path}{others} has a text: {first.detail}. "
        f"{REMEDIES['no_text']} Or take the file out of the folder, or raise input.most_rejected to train on the others"
    )


STAGE = IngestStage()
