"""The stages of a run: what each asks of its owner, given the results before it, and when a result may be used again.

Promises: two requests with the same reuse key give the same content; where and by how many a stage is done is no part
of it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from tutti.checkpoints.keys import checkpoint_of
from tutti.contracts.dedup.v1 import DedupSpec, Documents, Lines
from tutti.contracts.ingest.v1 import CrawlSpec, FilterSpec, IngestSpec, Place, Threshold
from tutti.contracts.sampling.v1 import SampleSpec
from tutti.contracts.scheduler.v1 import JobSpec, MixedDataset
from tutti.contracts.tokenization.v1 import IndexSpec, TokenizationSpec
from tutti.corpus.canonical import content_digest
from tutti.model.training import Training, WeightedDataset
from tutti.pipeline.recipe import Recipe

# Of the trainer, which has no request that could tell it; a change of the arithmetic of a step changes it.
TRAINING_VERSION = "train-1"


class StageName(StrEnum):
    """In the order in which they are done; each uses what those in USES made. See `stages_of`."""

    CRAWL = "crawl"
    INGEST = "ingest"
    FILTER = "filter"
    EVALUATION = "evaluation"
    DEDUP = "dedup"
    TOKENIZATION = "tokenization"
    TRAIN = "train"
    INDEX = "index"
    SAMPLE = "sample"


KINDS = {
    StageName.CRAWL: "crawls",
    StageName.INGEST: "ingests",
    StageName.FILTER: "filters",
    StageName.EVALUATION: "ingests",
    StageName.DEDUP: "dedups",
    StageName.TOKENIZATION: "tokenizations",
    StageName.TRAIN: "jobs",
    StageName.INDEX: "indexes",
    StageName.SAMPLE: "samples",
}
USES = {
    StageName.CRAWL: (),
    StageName.INGEST: (StageName.CRAWL,),
    StageName.FILTER: (StageName.INGEST,),
    StageName.EVALUATION: (),
    StageName.DEDUP: (StageName.FILTER, StageName.EVALUATION),
    StageName.TOKENIZATION: (StageName.DEDUP,),
    StageName.TRAIN: (StageName.TOKENIZATION,),
    StageName.INDEX: (StageName.TOKENIZATION,),
    StageName.SAMPLE: (StageName.TRAIN,),
}
"""The stages whose results each is given, where the recipe has them; it works on that of the first."""


@dataclass(frozen=True)
class Result:
    """What a stage made: a manifest, named by its content.

    `retracted`: of an ingest, the list of its documents that a filter leaves out today; of an earlier dataset, the list
    of those that dedup does not compare with today; "" for none.
    """

    resource: str
    manifest_key: str
    content_digest: str
    retracted: str = ""


@dataclass(frozen=True)
class Share:
    """A dataset that is trained on, and its weight in the mixture."""

    dataset: Result
    weight: int


@dataclass(frozen=True)
class Given:
    """What a stage is given: the result that it works on, and for dedup what the documents are compared with.

    `against` are the documents of earlier datasets: the results of the dedups that they were made of. `measures` is the
    ingest that measured the documents, of which tokenization tells a little and which decides nothing. `mixture` are
    all datasets of a training that reads several, the run's own first.
    """

    before: Result | None = None
    evaluation: Result | None = None
    against: tuple[Result, ...] = ()
    measures: Result | None = None
    mixture: tuple[Share, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The digests of all of it but `measures`; what there is none of leaves no trace."""
        found = (self.before, self.evaluation, *self.against, *(each.dataset for each in self.mixture[1:]))
        return tuple(each.content_digest for each in found if each is not None)


@dataclass(frozen=True)
class Source:
    """The folder of a run as it was when the recipe was accepted; of a crawl, where hosts lie (JSON), is the path.

    `evaluation` is the folder of the texts that dedup takes out of the corpus. How much was in the folder, `files` and
    `nbytes`, is known only where it was just read, and is no part of what it is.
    """

    path: str
    input_digest: str
    logic_version: str
    evaluation: "Source | None" = None
    files: int = field(default=0, compare=False)
    nbytes: int = field(default=0, compare=False)


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


Spec = CrawlSpec | IngestSpec | FilterSpec | DedupSpec | TokenizationSpec | JobSpec | IndexSpec | SampleSpec


def stages_of(recipe: Recipe) -> list[StageName]:
    """The stages that a recipe has, in their order."""
    missing = {
        StageName.CRAWL: recipe.input.crawl is None,
        StageName.EVALUATION: recipe.dedup.decontaminate is None,
        StageName.INDEX: not recipe.index,
        StageName.SAMPLE: recipe.sample is None,
    }
    return [name for name in StageName if not missing.get(name, False)]


def given(stage: StageName, results: Mapping[StageName, Result]) -> Given:
    """What a stage is given of the results so far."""
    before, evaluation = [*(results.get(each) for each in USES[stage]), None, None][:2]
    measures = results.get(StageName.INGEST) if stage is StageName.TOKENIZATION else None
    return Given(before, evaluation, measures=measures)


def resource_name(run: str, stage: StageName) -> str:
    """The name of a stage's resource at its owner: H(run, stage)."""
    digest = content_digest({"run": run, "stage": stage.value}, kind="stage").removeprefix("blake3:")
    return f"{KINDS[stage]}/{digest[:20]}"


def spec_of(stage: StageName, recipe: Recipe, source: Source, given: Given, logic_version: str) -> Spec:
    """What the stage asks of its owner."""
    crawl, before = recipe.input.crawl, given.before
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
            since=crawl.since,
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
            classifiers=sorted(set(recipe.quality.classifiers)),
            engine="" if recipe.engine == "local" else recipe.engine,
        )
    clean = recipe.dedup.decontaminate
    if stage is StageName.EVALUATION:
        assert clean is not None
        assert source.evaluation is not None
        return IngestSpec(
            input_path=source.evaluation.path,
            max_file_bytes=recipe.input.max_file_bytes,
            logic_version=logic_version,
            input_digest=source.evaluation.input_digest,
            text_field=clean.text_field,
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
            classifiers=sorted(set(quality.classifiers)),
            retracted_key=before.retracted,
        )
    if stage is StageName.DEDUP:
        return DedupSpec(
            manifest_key=before.manifest_key,
            content_digest=before.content_digest,
            logic_version=logic_version,
            near=recipe.dedup.near,
            evaluation=_documents(given.evaluation) if given.evaluation else None,
            evaluation_words=clean.words if clean else 0,
            evaluation_share=clean.share if clean else 0.0,
            against=[_documents(each) for each in given.against],
            engine="" if recipe.engine == "local" else recipe.engine,
            lines=Lines(**recipe.dedup.lines.model_dump()) if recipe.dedup.lines else None,
            clean="" if recipe.quality.clean == "none" else recipe.quality.clean,
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
            tokenizer=recipe.tokenizer.of,
            packing=recipe.data.packing,
            measures_key=given.measures.manifest_key if given.measures else "",
            measures_digest=given.measures.content_digest if given.measures else "",
            logic_version=logic_version,
        )
    if stage is StageName.INDEX:
        return IndexSpec(
            manifest_key=before.manifest_key, content_digest=before.content_digest, logic_version=logic_version
        )
    if stage is StageName.SAMPLE:
        assert recipe.sample is not None
        asked = recipe.sample.model_dump()
        return SampleSpec(checkpoint=checkpoint_of(before.manifest_key), logic_version=logic_version, **asked)
    training = _training(recipe, before, given)
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
        mixed=[
            MixedDataset(manifest_key=each.dataset.manifest_key, digest=each.dataset.content_digest)
            for each in given.mixture[1:]
        ],
    )


def _training(recipe: Recipe, own: Result, given: Given) -> Training:
    mixture = tuple(WeightedDataset(each.dataset.content_digest, each.weight) for each in given.mixture)
    return recipe.training(own.content_digest, mixture)


def _documents(result: Result) -> Documents:
    return Documents(
        manifest_key=result.manifest_key, content_digest=result.content_digest, retracted_key=result.retracted
    )


def reuse_of(stage: StageName, recipe: Recipe, source: Source, given: Given, logic_version: str) -> Reuse:
    """What decides the stage's content."""
    before = given.before
    if stage is StageName.CRAWL:
        assert recipe.input.crawl is not None
        return Reuse(stage.value, logic_version, recipe.input.crawl.parameters(), ())
    if stage is StageName.INGEST:
        parameters: dict[str, object] = {
            "max_file_bytes": recipe.input.max_file_bytes,
            "limit": recipe.input.limit,
            "text_field": recipe.input.text_field,
            "mask": sorted(set(recipe.quality.mask)),
            **_scored(recipe),
        }
        inputs = (before.content_digest if before else source.input_digest,)
        return Reuse(stage.value, logic_version, parameters, inputs)
    if stage is StageName.EVALUATION:
        # As an ingest of this folder: what one read serves as the other.
        assert recipe.dedup.decontaminate is not None
        assert source.evaluation is not None
        parameters = {
            "max_file_bytes": recipe.input.max_file_bytes,
            "limit": 0,
            "text_field": recipe.dedup.decontaminate.text_field,
            "mask": [],
        }
        return Reuse(StageName.INGEST.value, logic_version, parameters, (source.evaluation.input_digest,))
    assert before is not None
    if stage is StageName.FILTER:
        quality = recipe.quality
        parameters = {
            "rules": sorted(set(quality.rules)),
            "thresholds": dict(quality.thresholds),
            "languages": sorted(set(quality.languages)),
            **_scored(recipe),
            **({"retracted": before.retracted} if before.retracted else {}),
        }
    elif stage is StageName.DEDUP:
        parameters = recipe.dedup.parameters()
        if recipe.quality.clean != "none":
            parameters["clean"] = recipe.quality.clean
        if any(each.retracted for each in given.against):
            parameters["retracted"] = [each.retracted for each in given.against]
    elif stage is StageName.TOKENIZATION:
        parameters = {**recipe.tokenizer.parameters(), **recipe.data.parameters()}
    elif stage is StageName.INDEX:
        parameters = {}
    elif stage is StageName.SAMPLE:
        assert recipe.sample is not None
        parameters = recipe.sample.model_dump()
    else:
        parameters = {"training": _training(recipe, before, given).digest()}
    return Reuse(stage.value, logic_version, parameters, given.inputs)


def _scored(recipe: Recipe) -> dict[str, object]:
    """The classifiers, where there are any: a key without them stays what it was."""
    return {"classifiers": sorted(set(recipe.quality.classifiers))} if recipe.quality.classifiers else {}
