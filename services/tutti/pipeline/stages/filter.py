"""The stage `filter`: chooses documents by quality rules, languages, classifiers and retractions."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from tutti.chassis.config.recipetext import Part, Real
from tutti.chassis.service import Host
from tutti.contracts.ingest.v1 import Filter, FilterSpec, Ingest, Threshold
from tutti.corpus.documents.stages import FilterBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import MAKE_RUN, Flat, Question, Role, StageContext, StageDef
from tutti.pipeline.definitions.retracted import with_retracted
from tutti.pipeline.recipes.recipe import Names, Recipe
from tutti.pipeline.recipes.values import Inputs, Measure
from tutti.records.manifest import Manifest

KEYS = {
    "rule_sets": "quality.rules",
    "thresholds": "quality.thresholds",
    "classifiers": "quality.classifiers",
    "languages": "quality.languages",
}


class FilterSection(Part):
    rules: Names = Field(default_factory=list, description="sets of rules that a document must pass; see quality.rules")
    thresholds: dict[str, Real] = Field(
        default_factory=dict, max_length=100, description="threshold by rule, where it differs from the published one"
    )
    languages: Names = Field(default_factory=list, description="ISO 639 codes of the languages to include; none: all")


class FilterStage(StageDef):
    name = "filter"
    work = Filter
    section = FilterSection
    flat_keys = ("quality",)
    roles = (Role("documents", Ingest, default="ingest"),)
    measured = Measure(MAKE_RUN, 0.1, 649, 6_900)

    def flat(self, recipe: Recipe) -> Mapping[str, Flat]:
        return {"filter": Flat(recipe)} if recipe.reads_pages else {}

    def apply(self, recipe: Recipe, section: FilterSection) -> Recipe:
        return recipe.model_copy(update={"quality": recipe.quality.model_copy(update=dict(section))})

    def request(self, asked: StageContext) -> FilterSpec:
        quality, documents = asked.recipe.quality, asked.one("documents")
        return FilterSpec(
            manifest_key=documents.manifest_key,
            content_digest=documents.content_digest,
            logic_version=asked.logic_version,
            rule_sets=quality.rules,
            thresholds=[Threshold(rule=rule, value=value) for rule, value in sorted(quality.thresholds.items())],
            languages=quality.languages,
            classifiers=sorted(set(quality.classifiers)),
            retracted_key=documents.retracted,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        quality, retracted = asked.recipe.quality, asked.one("documents").retracted
        return {
            "rules": sorted(set(quality.rules)),
            "thresholds": dict(quality.thresholds),
            "languages": sorted(set(quality.languages)),
            **quality.scored(),
            **({"retracted": retracted} if retracted else {}),
        }

    def today(self, asked: StageContext, host: Host) -> Inputs:
        return {"documents": (with_retracted(host, asked.one("documents")),)}

    def questions(self, recipe: Recipe) -> Iterator[Question]:
        """Rules, then languages, then both: the owner names the first of what is wrong."""
        quality = recipe.quality
        if not (quality.rules or quality.thresholds or quality.classifiers or quality.languages):
            return
        parts: list[dict[str, object]] = [{"languages": []}, {"rules": [], "thresholds": {}, "classifiers": []}]
        for apart in parts:
            yield Question(recipe.model_copy(update={"quality": quality.model_copy(update=apart)}), KEYS)

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        chosen = FilterBody.read(manifest)
        yield from (Expected(shard.blob, shard.info.bytes, own=False) for shard in chosen.shards)
        yield from map(Expected.by_digest, filter(None, (chosen.decisions,)))

    def summary(self, work: Any) -> str:
        return f"{work.documents:,} documents chosen, {work.rejected:,} rejected"


STAGE = FilterStage()
