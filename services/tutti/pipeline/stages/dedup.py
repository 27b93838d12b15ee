"""The stage `dedup`: leaves out documents that repeat others, earlier datasets or evaluation texts."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from pydantic import Field

from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.contracts.dedup.v1 import Dedup, DedupSpec, Documents, Lines
from tutti.contracts.ingest.v1 import Filter, Ingest
from tutti.corpus.documents.stages import DedupBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import MAKE_RUN, Flat, Question, Role, StageContext, StageDef
from tutti.pipeline.definitions.retracted import with_retracted
from tutti.pipeline.definitions.tokenized import documents_of
from tutti.pipeline.recipes.recipe import DedupKeys, DedupPart, Recipe
from tutti.pipeline.recipes.values import Inputs, Measure, Resident, Result
from tutti.records.manifest import Manifest


class DedupSection(DedupKeys):
    later = frozenset({"against"})

    clean: Literal["none", "c4"] = Field(default="none", description="c4: remove the lines that C4 removes")


class DedupStage(StageDef):
    name = "dedup"
    work = Dedup
    section = DedupSection
    flat_keys = ("dedup", "quality")
    roles = (
        Role("documents", Filter, default="filter"),
        Role("held_out", Ingest, default="evaluation", required=False, given=False),
        Role("against", Dedup, required=False, many=True, given=False),
    )
    measured = Measure(MAKE_RUN, 0.2, 649, 13_900)
    resident = Resident("benchmarks.near_duplicates", 184_000_000, 340)

    def flat(self, recipe: Recipe) -> Mapping[str, Flat]:
        return {"dedup": Flat(recipe)} if recipe.reads_pages else {}

    def apply(self, recipe: Recipe, section: DedupSection) -> Recipe:
        quality = recipe.quality.model_copy(update={"clean": section.clean})
        dedup = DedupPart(near=section.near, lines=section.lines, against=section.against)
        return recipe.model_copy(update={"dedup": dedup, "quality": quality})

    def problems(self, recipe: Recipe, filled: Collection[str]) -> Iterator[InvalidField]:
        lines = recipe.dedup.lines
        if lines is not None and lines.keep > lines.most:
            yield InvalidField("dedup.lines.keep", seen=lines.keep, expected=f"at most dedup.lines.most ({lines.most})")

    def request(self, asked: StageContext) -> DedupSpec:
        recipe, documents, held_out = asked.recipe, asked.one("documents"), asked.get("held_out")
        clean = recipe.dedup.decontaminate
        return DedupSpec(
            manifest_key=documents.manifest_key,
            content_digest=documents.content_digest,
            logic_version=asked.logic_version,
            near=recipe.dedup.near,
            evaluation=_documents(held_out) if held_out else None,
            evaluation_words=clean.words if clean else 0,
            evaluation_share=clean.share if clean else 0.0,
            against=[_documents(each) for each in asked.all("against")],
            engine="" if recipe.engine == "local" else recipe.engine,
            lines=Lines(**recipe.dedup.lines.model_dump()) if recipe.dedup.lines else None,
            clean="" if recipe.quality.clean == "none" else recipe.quality.clean,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        found = asked.recipe.dedup.parameters()
        if asked.recipe.quality.clean != "none":
            found["clean"] = asked.recipe.quality.clean
        if any(each.retracted for each in asked.all("against")):
            found["retracted"] = [each.retracted for each in asked.all("against")]
        return found

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """With the documents of the earlier datasets that the recipe names, and what is retracted of them."""
        against = asked.recipe.dedup.against
        if not against:
            return asked.inputs
        found = documents_of(host, self, against)
        return {**asked.inputs, "against": tuple(with_retracted(host, each) for each in found)}

    def questions(self, recipe: Recipe) -> Iterator[Question]:
        if recipe.engine != "local" or "near" in recipe.dedup.model_fields_set:
            yield Question(recipe, {"engine": "engine", "near": "dedup.near"})

    def lookups(self, recipe: Recipe, host: Host) -> Iterator[Callable[[], object]]:
        if recipe.dedup.against:
            yield partial(documents_of, host, self, recipe.dedup.against)

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        kept = DedupBody.read(manifest)
        yield from (Expected(shard.blob, shard.info.bytes, own=False) for shard in kept.shards)
        yield from map(Expected.by_digest, filter(None, (kept.decisions, kept.clusters, kept.cuts)))

    def summary(self, work: Any) -> str:
        return f"{work.documents:,} documents kept, {work.duplicates:,} duplicates"


def _documents(result: Result) -> Documents:
    return Documents(
        manifest_key=result.manifest_key, content_digest=result.content_digest, retracted_key=result.retracted
    )


STAGE = DedupStage()
