"""The stage `dedup`: leaves out documents that repeat others, earlier datasets or evaluation texts."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.contracts.dedup.v1 import Dedup, DedupSpec, Documents, Lines
from tutti.contracts.ingest.v1 import Filter, Ingest
from tutti.contracts.pipeline.v1 import RunFigures
from tutti.corpus.documents.stages import DedupBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import MAKE_RUN, Role, StageContext, StageDef
from tutti.pipeline.definitions.retracted import with_retracted
from tutti.pipeline.definitions.tokenized import documents_of
from tutti.pipeline.recipes.sections import DedupSection
from tutti.pipeline.recipes.values import Inputs, Measure, Resident, Result
from tutti.pipeline.recipes.view import View
from tutti.records.counts import counted
from tutti.records.manifest import Manifest


class DedupStage(StageDef):
    name = "dedup"
    work = Dedup
    section = DedupSection
    roles = (
        Role("documents", Filter, default="filter"),
        Role("held_out", Ingest, default="evaluation", required=False, given=False),
        Role("against", Dedup, required=False, many=True, given=False),
    )
    measured = Measure(MAKE_RUN, 0.2, 649, 13_900)
    resident = Resident("benchmarks.near_duplicates", 184_000_000, 340)

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        section = view.section(DedupSection)
        if wrong := next((name for name in section.against if not name.startswith("datasets/")), ""):
            yield view.refused("against", seen=wrong, expected="names of datasets, such as datasets/…")
        lines = section.lines
        if lines is not None and lines.keep > lines.most:
            expected = f"at most {view.key('lines.most')} ({lines.most})"
            yield view.refused("lines.keep", seen=lines.keep, expected=expected)

    def request(self, asked: StageContext) -> DedupSpec:
        section, engine = asked.view.section(DedupSection), asked.view.recipe.engine
        documents, held_out, overlap = asked.one("documents"), asked.get("held_out"), section.overlap
        return DedupSpec(
            manifest_key=documents.manifest_key,
            content_digest=documents.content_digest,
            logic_version=asked.logic_version,
            near=section.near,
            evaluation=_documents(held_out) if held_out else None,
            evaluation_words=overlap.words if overlap else 0,
            evaluation_share=overlap.share if overlap else 0.0,
            against=[_documents(each) for each in asked.all("against")],
            engine="" if engine == "local" else engine,
            lines=Lines(**section.lines.model_dump()) if section.lines else None,
            clean="" if section.clean == "none" else section.clean,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        """Keys without a value are absent."""
        section = asked.view.section(DedupSection)
        found: dict[str, object] = {"near": section.near}
        if section.overlap is not None:
            found["decontaminate"] = section.overlap.model_dump(include={"words", "share"})
        if section.lines is not None:
            found["lines"] = section.lines.model_dump()
        if section.clean != "none":
            found["clean"] = section.clean
        if any(each.retracted for each in asked.all("against")):
            found["retracted"] = [each.retracted for each in asked.all("against")]
        return found

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """With the documents of the earlier datasets that the recipe names, and what is retracted of them."""
        if not asked.view.section(DedupSection).against:
            return asked.inputs
        found = documents_of(host, self, asked.view)
        return {**asked.inputs, "against": tuple(with_retracted(host, each) for each in found)}

    def questions(self, view: View) -> Iterator[View]:
        if view.recipe.engine != "local" or "near" in view.instance.section.model_fields_set:
            yield view

    def lookups(self, view: View, host: Host) -> Iterator[Callable[[], object]]:
        if view.section(DedupSection).against:
            yield partial(documents_of, host, self, view)

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        kept = DedupBody.read(manifest)
        yield from (Expected(shard.blob, shard.info.bytes, own=False) for shard in kept.shards)
        yield from map(Expected.by_digest, filter(None, (kept.decisions, kept.clusters, kept.cuts)))

    def summary(self, work: Any) -> str:
        return f"{counted(work.documents, 'document')} kept, {counted(work.duplicates, 'duplicate')}"

    def run_figures(self, work: Any) -> RunFigures:
        return RunFigures(documents=work.documents)


def _documents(result: Result) -> Documents:
    return Documents(
        manifest_key=result.manifest_key, content_digest=result.content_digest, retracted_key=result.retracted
    )


STAGE = DedupStage()
