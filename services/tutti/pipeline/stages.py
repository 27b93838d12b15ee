"""The stages of a run: what each asks of its owner, given the results before it, and when a result may be used again.

Promises: two requests with the same reuse key give the same content; where and by how many a stage is done is no part
of it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from tutti.contracts.dedup.v1 import DedupSpec
from tutti.contracts.ingest.v1 import CrawlSpec, FilterSpec, IngestSpec, Place, Threshold
from tutti.contracts.scheduler.v1 import JobSpec
from tutti.contracts.tokenization.v1 import TokenizationSpec
from tutti.corpus.canonical import content_digest
from tutti.pipeline.recipe import Recipe

# Of the trainer, which has no request that could tell it; a change of the arithmetic of a step changes it.
TRAINING_VERSION = "train-1"


class StageName(StrEnum):
    """In the order in which they are done; each uses the result of the one before. See `stages_of`."""

    CRAWL = "crawl"
    INGEST = "ingest"
    FILTER = "filter"
    DEDUP = "dedup"
    TOKENIZATION = "tokenization"
    TRAIN = "train"


KINDS = {
    StageName.CRAWL: "crawls",
    StageName.INGEST: "ingests",
    StageName.FILTER: "filters",
    StageName.DEDUP: "dedups",
    StageName.TOKENIZATION: "tokenizations",
    StageName.TRAIN: "jobs",
}


@dataclass(frozen=True)
class Result:
    """What a stage made: a manifest, named by its content.

    `retracted`: of an ingest, the list of its documents that a filter leaves out today; "" for none.
    """

    resource: str
    manifest_key: str
    content_digest: str
    retracted: str = ""


@dataclass(frozen=True)
class Source:
    """The folder of a run as it was when the recipe was accepted; of a crawl, where hosts lie (JSON), is the path."""

    path: str
    input_digest: str
    logic_version: str


@dataclass(frozen=True)
class Reuse:
    """Everything that decides a stage's content: its key is the digest of this."""

    stage: str
    logic_version: str
    parameters: Mapping[str, object]
    inputs: tuple[str, ...]

    @property
    def key(self) -> str:
        return content_digest(asdict(self), kind="reuse key")


Spec = CrawlSpec | IngestSpec | FilterSpec | DedupSpec | TokenizationSpec | JobSpec


def stages_of(recipe: Recipe) -> list[StageName]:
    """The stages that a recipe has, in their order."""
    return [name for name in StageName if name is not StageName.CRAWL or recipe.input.crawl is not None]


def resource_name(run: str, stage: StageName) -> str:
    """The name of a stage's resource at its owner: H(run, stage)."""
    digest = content_digest({"run": run, "stage": stage.value}, kind="stage").removeprefix("blake3:")
    return f"{KINDS[stage]}/{digest[:20]}"


def spec_of(stage: StageName, recipe: Recipe, source: Source, before: Result | None, logic_version: str) -> Spec:
    """What the stage asks of its owner. `before` is the result of the stage before it."""
    crawl = recipe.input.crawl
    if stage is StageName.CRAWL:
        assert crawl is not None
        return CrawlSpec(
            seeds=crawl.seeds,
            within=crawl.within,
            without=crawl.without,
            depth=crawl.depth,
            pages=crawl.pages,
            pages_of_host=crawl.pages_of_host,
            alike=crawl.alike,
            contact=crawl.contact,
            delay_seconds=crawl.delay_seconds,
            connections=crawl.connections,
            page_bytes=crawl.page_bytes,
            page_seconds=crawl.page_seconds,
            allow_private=crawl.allow_private,
            skip_sitemaps=not crawl.sitemaps,
            connect=[Place(host=host, address=there) for host, there in sorted(json.loads(source.path).items())],
            logic_version=logic_version,
        )
    if stage is StageName.INGEST:
        return IngestSpec(
            input_path="" if before else source.path,
            manifest_key=before.manifest_key if before else "",
            content_digest=before.content_digest if before else "",
            max_file_bytes=recipe.input.max_file_bytes,
            limit=recipe.input.limit,
            logic_version=logic_version,
            input_digest=source.input_digest,
            text_field=recipe.input.text_field,
            mask=sorted(set(recipe.quality.mask)),
        )
    assert before is not None
    if stage is StageName.FILTER:
        quality = recipe.quality
        return FilterSpec(
            manifest_key=before.manifest_key,
            content_digest=before.content_digest,
            logic_version=logic_version,
            rule_sets=quality.rules,
            thresholds=[Threshold(rule=rule, value=value) for rule, value in sorted(quality.thresholds.items())],
            languages=quality.languages,
            retracted_key=before.retracted,
        )
    if stage is StageName.DEDUP:
        return DedupSpec(
            manifest_key=before.manifest_key,
            content_digest=before.content_digest,
            logic_version=logic_version,
            near=recipe.dedup.near,
        )
    if stage is StageName.TOKENIZATION:
        return TokenizationSpec(
            manifest_key=before.manifest_key,
            content_digest=before.content_digest,
            vocabulary=recipe.tokenizer.vocabulary,
            pattern=recipe.tokenizer.pattern,
            context=recipe.data.context,
            validation_fraction=recipe.data.validation_fraction,
            seed=recipe.data.seed,
            shard_sequences=recipe.data.shard_sequences,
            logic_version=logic_version,
        )
    training = recipe.training(before.content_digest)
    return JobSpec(
        training=training.to_json(),
        training_digest=training.digest(),
        dataset_manifest_key=before.manifest_key,
        dataset_digest=before.content_digest,
        leaves=training.step.leaves,
        steps=training.steps,
        data_parallel=recipe.train.ranks,
        shrink=recipe.train.shrink,
        attempts=recipe.train.attempts,
    )


def reuse_of(stage: StageName, recipe: Recipe, source: Source, before: Result | None, logic_version: str) -> Reuse:
    """What decides the stage's content."""
    if stage is StageName.CRAWL:
        assert recipe.input.crawl is not None
        return Reuse(stage.value, logic_version, recipe.input.crawl.parameters(), ())
    if stage is StageName.INGEST:
        parameters: dict[str, object] = {
            "max_file_bytes": recipe.input.max_file_bytes,
            "limit": recipe.input.limit,
            "text_field": recipe.input.text_field,
            "mask": sorted(set(recipe.quality.mask)),
        }
        inputs = (before.content_digest if before else source.input_digest,)
        return Reuse(stage.value, logic_version, parameters, inputs)
    assert before is not None
    if stage is StageName.FILTER:
        quality = recipe.quality
        parameters = {
            "rules": sorted(set(quality.rules)),
            "thresholds": dict(quality.thresholds),
            "languages": sorted(set(quality.languages)),
            **({"retracted": before.retracted} if before.retracted else {}),
        }
    elif stage is StageName.DEDUP:
        parameters = recipe.dedup.model_dump()
    elif stage is StageName.TOKENIZATION:
        parameters = {**recipe.tokenizer.model_dump(), **recipe.data.model_dump()}
    else:
        parameters = {"training": recipe.training(before.content_digest).digest()}
    return Reuse(stage.value, logic_version, parameters, (before.content_digest,))
