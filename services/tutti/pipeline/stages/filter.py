"""The stage `filter`: chooses documents by quality rules, languages, classifiers and retractions."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tutti.chassis.service import Host
from tutti.contracts.ingest.v1 import Filter, FilterSpec, Ingest, Threshold
from tutti.corpus.documents.stages import FilterBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import MAKE_RUN, Role, StageContext, StageDef
from tutti.pipeline.definitions.retracted import with_retracted
from tutti.pipeline.recipes.sections import FilterSection, IngestSection
from tutti.pipeline.recipes.values import Inputs, Measure
from tutti.pipeline.recipes.view import View
from tutti.records.counts import counted
from tutti.records.manifest import Manifest


class FilterStage(StageDef):
    name = "filter"
    work = Filter
    section = FilterSection
    spec_keys: ClassVar[Mapping[str, str]] = {"rule_sets": "rules", "classifiers": "classifiers"}
    roles = (Role("documents", Ingest, default="ingest"),)
    measured = Measure(MAKE_RUN, 0.1, 649, 6_900)

    def request(self, asked: StageContext) -> FilterSpec:
        section, documents = asked.view.section(FilterSection), asked.one("documents")
        return FilterSpec(
            manifest_key=documents.manifest_key,
            content_digest=documents.content_digest,
            logic_version=asked.logic_version,
            rule_sets=section.rules,
            thresholds=[Threshold(rule=rule, value=value) for rule, value in sorted(section.thresholds.items())],
            languages=section.languages,
            classifiers=_classifiers(asked.view),
            retracted_key=documents.retracted,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        section, retracted = asked.view.section(FilterSection), asked.one("documents").retracted
        classifiers = _classifiers(asked.view)
        return {
            "rules": sorted(set(section.rules)),
            "thresholds": dict(section.thresholds),
            "languages": sorted(set(section.languages)),
            **({"classifiers": classifiers} if classifiers else {}),
            **({"retracted": retracted} if retracted else {}),
        }

    def today(self, asked: StageContext, host: Host) -> Inputs:
        return {"documents": (with_retracted(host, asked.one("documents")),)}

    def questions(self, view: View) -> Iterator[View]:
        """Rules, then languages, then both: the owner names the first of what is wrong."""
        section = view.section(FilterSection)
        if section.rules or section.thresholds or section.languages or _classifiers(view):
            yield view.changed({"languages": []})
            yield view.changed({"rules": [], "thresholds": {}})

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        chosen = FilterBody.read(manifest)
        yield from (Expected(shard.blob, shard.info.bytes, own=False) for shard in chosen.shards)
        yield from map(Expected.by_digest, filter(None, (chosen.decisions,)))

    def summary(self, work: Any) -> str:
        return f"{counted(work.documents, 'document')} chosen, {work.rejected:,} rejected"


def _classifiers(view: View) -> list[str]:
    """Return the classifiers that labelled the documents when they were read."""
    read = view.nearest(IngestSection) or view.recipe.top["ingest"].section
    assert isinstance(read, IngestSection)
    return sorted(set(read.classifiers))


STAGE = FilterStage()
