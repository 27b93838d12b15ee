"""The owners of stages: the calls by which a run asks them.

Promises: nothing is kept here; a call that may not have arrived can be sent again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tutti.chassis.errors import DeadlineExceeded, InvalidField, NotFound, Refused
from tutti.chassis.service import Host
from tutti.checkpoints.keys import manifest_key
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    CHECKPOINT_STATE_QUARANTINED,
    CheckpointState,
)
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import (
    STATE_CANCELLED,
    STATE_DONE,
    STATE_FAILED,
    STATE_PENDING,
    STATE_RUNNING,
    CancelRequest,
    GetRequest,
    ListRequest,
    State,
)
from tutti.contracts.dedup.v1 import CreateDedupRequest, Dedup
from tutti.contracts.dedup.v1.stubs import DedupServiceStub
from tutti.contracts.ingest.v1 import (
    Crawl,
    CreateCrawlRequest,
    CreateFilterRequest,
    CreateIngestRequest,
    DigestInputRequest,
    Filter,
    FindRetractedRequest,
    Ingest,
    IngestSpec,
)
from tutti.contracts.ingest.v1.stubs import IngestServiceStub
from tutti.contracts.sampling.v1 import CreateSampleRequest, Sample
from tutti.contracts.sampling.v1.stubs import SamplingServiceStub
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DONE,
    JOB_STATE_FAILED,
    JOB_STATE_QUEUED,
    CreateJobRequest,
    Job,
)
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.contracts.tokenization.v1 import CreateIndexRequest, CreateTokenizationRequest, Dataset, Index, Tokenization
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.pipeline import evidence
from tutti.pipeline.mixing import shares
from tutti.pipeline.recipe import Recipe
from tutti.pipeline.stages import TRAINING_VERSION, Given, Result, Source, Spec, StageName, spec_of

PAGE = 500
SEEK_SECONDS = 60.0  # to look for retracted documents of a stage, once; what was looked at by then is remembered
_JOB_STATES = {
    JOB_STATE_QUEUED: STATE_PENDING,
    JOB_STATE_DONE: STATE_DONE,
    JOB_STATE_FAILED: STATE_FAILED,
    JOB_STATE_CANCELLED: STATE_CANCELLED,
}


@dataclass(frozen=True)
class Seen:
    """A stage's resource as its owner has it; `result` when it is done."""

    resource: str
    state: State.ValueType
    reason: str
    result: Result | None


def seen_work(work: Crawl | Ingest | Filter | Dedup | Tokenization | Index | Sample) -> Seen:
    result = Result(work.name, work.result.manifest_key, work.result.content_digest)
    return Seen(work.name, work.state, work.reason, result if work.state == STATE_DONE else None)


def seen_job(job: Job) -> Seen:
    """Of a done job the result lacks its manifest, which the committer knows."""
    result = Result(job.name, "", job.state_digest)
    state = _JOB_STATES.get(job.state, STATE_RUNNING)
    return Seen(job.name, state, job.reason, result if state == STATE_DONE else None)


@dataclass(frozen=True)
class Work:
    """The calls of a kind of work with a spec and an artifact; `made` is its field in the answer to `create`."""

    create: Callable[..., Any]
    request: Callable[..., Any]
    made: str
    get: Callable[..., Any]
    cancel: Callable[..., Any]


class Owners:
    def __init__(self, host: Host) -> None:
        self._blobs = host.blobs
        self._ingest = ingest = IngestServiceStub(host.channel("ingest"))
        dedup = DedupServiceStub(host.channel("dedup"))
        self._tokenization = tokenization = TokenizationServiceStub(host.channel("tokenization"))
        sampling = SamplingServiceStub(host.channel("sampling"))
        self._scheduler = SchedulerServiceStub(host.channel("scheduler"))
        self._committer = CommitterServiceStub(host.channel("committer"))
        reads = Work(ingest.CreateIngest, CreateIngestRequest, "ingest", ingest.GetIngest, ingest.CancelIngest)
        self._works = {
            StageName.CRAWL: Work(ingest.CreateCrawl, CreateCrawlRequest, "crawl", ingest.GetCrawl, ingest.CancelCrawl),
            StageName.INGEST: reads,
            StageName.EVALUATION: reads,
            StageName.FILTER: Work(
                ingest.CreateFilter, CreateFilterRequest, "filter", ingest.GetFilter, ingest.CancelFilter
            ),
            StageName.DEDUP: Work(dedup.CreateDedup, CreateDedupRequest, "dedup", dedup.GetDedup, dedup.CancelDedup),
            StageName.TOKENIZATION: Work(
                tokenization.CreateTokenization,
                CreateTokenizationRequest,
                "tokenization",
                tokenization.GetTokenization,
                tokenization.CancelTokenization,
            ),
            StageName.INDEX: Work(
                tokenization.CreateIndex, CreateIndexRequest, "index", tokenization.GetIndex, tokenization.CancelIndex
            ),
            StageName.SAMPLE: Work(
                sampling.CreateSample, CreateSampleRequest, "sample", sampling.GetSample, sampling.CancelSample
            ),
        }

    def source(self, spec: IngestSpec, key: str, shown: str, *, seconds: float) -> Source:
        """The content of a folder now, read whole. Raises InvalidField naming the recipe's key, DeadlineExceeded.

        `shown` is the path as the recipe has it.
        """
        try:
            found = self._ingest.DigestInput(DigestInputRequest(spec=spec), timeout=seconds)
        except DeadlineExceeded as problem:
            raise DeadlineExceeded(
                f"the pages in {shown} were not read within {seconds:.0f} s; nothing was recorded"
            ) from problem
        except InvalidField as problem:
            expected = problem.metadata.get("expected", problem.message)
            raise InvalidField(key, seen=shown, expected=expected) from problem
        if not found.files:
            raise InvalidField(
                key,
                seen=shown,
                expected="a folder that holds pages (HTML, Markdown, plain text), JSON lines, Parquet or WARC; "
                "this one is empty",
            )
        return Source(spec.input_path, found.input_digest, found.logic_version, files=found.files, nbytes=found.bytes)

    def resolved(self, recipe: Recipe) -> Recipe:
        """The same with every classifier as NAME@DIGEST. Raises InvalidField naming quality.classifiers."""
        found = [self._classifier(reference) for reference in recipe.quality.classifiers]
        quality = recipe.quality.model_copy(update={"classifiers": sorted(set(found))})
        return recipe.model_copy(update={"quality": quality}) if found else recipe

    def _classifier(self, reference: str) -> str:
        name, _, digest = reference.partition("@")
        try:
            found = self._ingest.GetClassifier(GetRequest(name=f"classifiers/{name}"))
        except (NotFound, InvalidField) as problem:
            raise InvalidField(
                "quality.classifiers",
                seen=reference,
                expected="a classifier that was trained here, as `tutti classifiers ls` has it; "
                f"`tutti classifiers train RECIPE` trains one by a recipe with name: {name or '…'}",
            ) from problem
        if found.state != STATE_DONE:
            state = State.Name(found.state).removeprefix("STATE_").lower()
            raise InvalidField(
                "quality.classifiers", seen=reference, expected=f"a classifier that is trained; this one is {state}"
            )
        if digest not in ("", found.model_digest):
            raise InvalidField("quality.classifiers", seen=reference, expected=f"{name}@{found.model_digest}")
        return f"{name}@{found.model_digest}"

    def judgements(self, recipe: Recipe, source: Source) -> Iterator[Callable[[], object]]:
        """What only owners can judge of a recipe: URLs, rules, engine, similarity, the tokenizer's pattern.

        Each is a call that raises InvalidField where something is wrong.
        """
        judge = partial(partial, self._judge)
        quality = recipe.quality
        if recipe.input.crawl is not None:
            keys = ("seeds", "within", "without", "contact", "delay_seconds", "page_seconds", "connect", "since")
            yield judge(StageName.CRAWL, recipe, {key: f"input.crawl.{key}" for key in keys}, source)
        if quality.mask or recipe.engine != "local":
            yield judge(StageName.INGEST, recipe, {"mask": "quality.mask", "engine": "engine"})
        if quality.rules or quality.thresholds or quality.classifiers or quality.languages:
            fields = {"rule_sets": "rules", "thresholds": "thresholds", "classifiers": "classifiers"}
            fields |= {"languages": "languages"}
            parts: list[dict[str, object]] = [{"languages": []}, {"rules": [], "thresholds": {}, "classifiers": []}]
            for apart in parts:
                part = recipe.model_copy(update={"quality": quality.model_copy(update=apart)})
                yield judge(StageName.FILTER, part, {field: f"quality.{key}" for field, key in fields.items()})
        if recipe.dedup.against:
            yield partial(self.earlier, recipe)
        if recipe.engine != "local" or "near" in recipe.dedup.model_fields_set:
            yield judge(StageName.DEDUP, recipe, {"engine": "engine", "near": "dedup.near"})
        if recipe.tokenizer.pattern:
            yield judge(StageName.TOKENIZATION, recipe, {"pattern": "tokenizer.pattern"})
        if recipe.sample is not None:
            yield judge(StageName.SAMPLE, recipe, {key: f"sample.{key}" for key in recipe.sample.model_dump()})

    def _judge(self, stage: StageName, recipe: Recipe, keys: Mapping[str, str], source: Source | None = None) -> None:
        """Ask a stage's owner without effect; `keys` of the recipe by the fields of the spec."""
        source = source or Source("", "", "")
        given = Given(Result("", manifest_key("to-be-made", 0, 1), "to be made"))
        try:
            self._create(stage, "", spec_of(stage, recipe, source, given, ""), validate_only=True)
        except InvalidField as problem:
            seen, expected = (problem.metadata.get(name, problem.message) for name in ("seen", "expected"))
            field = problem.metadata.get("field", "").removeprefix("spec.")
            raise InvalidField(keys.get(field, stage.value), seen=_Shown(seen), expected=expected) from problem

    def today(self, stage: StageName, recipe: Recipe, given: Given) -> Given:
        """What a stage is given, as it counts today.

        For a filter with what is retracted of the documents, for dedup with those of the earlier datasets that the
        recipe names, and what is retracted of them, for a training with its mixture. Raises InvalidField naming
        dedup.against or mixture.datasets.
        """
        if stage is StageName.FILTER and given.before is not None:
            return replace(given, before=self._with_retracted(given.before))
        if stage is StageName.DEDUP and recipe.dedup.against:
            return replace(given, against=tuple(map(self._with_retracted, self.earlier(recipe))))
        if stage is StageName.TRAIN and recipe.mixture is not None and given.before is not None:
            return replace(given, mixture=shares(recipe.mixture, given.before, self._dataset))
        return given

    def _with_retracted(self, result: Result) -> Result:
        """The same, of an ingest or a dedup, with the list of its documents that are retracted now."""
        asked = FindRetractedRequest(manifest_key=result.manifest_key, content_digest=result.content_digest)
        return replace(result, retracted=self._ingest.FindRetracted(asked, timeout=SEEK_SECONDS).retracted_key)

    def _dataset(self, name: str) -> Dataset:
        try:
            return self._tokenization.GetDataset(GetRequest(name=name))
        except NotFound as problem:
            raise InvalidField("mixture.datasets", seen=name, expected="datasets that are still there") from problem

    def as_today(self, recipe: Recipe, source: Source) -> Source:
        """The folders of an earlier run, for the logic that reads them today."""
        asked = (StageName.INGEST, source), (StageName.EVALUATION, source.evaluation)
        today: list[Source | None] = []
        for stage, folder in asked:
            crawled = stage is StageName.INGEST and recipe.input.crawl is not None
            if folder is not None and not crawled:
                spec = spec_of(stage, recipe, source, Given(), "")
                folder = replace(folder, logic_version=self._create(stage, "", spec, validate_only=True))
            today.append(folder)
        return replace(today[0] or source, evaluation=today[1])

    def earlier(self, recipe: Recipe) -> tuple[Result, ...]:
        """The documents of earlier datasets. Raises InvalidField naming dedup.against."""
        wanted = sorted(set(recipe.dedup.against))
        found = self._documents(set(wanted))
        if lacking := [name for name in wanted if name not in found]:
            raise InvalidField(
                "dedup.against", seen=lacking[0], expected="a dataset that was made here; see `tutti datasets ls`"
            )
        return tuple(found[name] for name in wanted)

    def _documents(self, datasets: set[str]) -> dict[str, Result]:
        """By dataset: the dedup whose documents are in it. Of several that gave the same one, see `_there`."""
        found: dict[str, dict[str, Result]] = {}
        token = ""
        while True:
            page = self._tokenization.ListTokenizations(ListRequest(page_size=PAGE, page_token=token))
            for each in page.tokenizations:
                if each.state == STATE_DONE and each.dataset in datasets:
                    made = Result(each.dataset, each.spec.manifest_key, each.spec.content_digest)
                    found.setdefault(each.dataset, {}).setdefault(made.manifest_key, made)
            token = page.next_page_token
            if not token:
                return {dataset: self._there(list(several.values())) for dataset, several in found.items()}

    def _there(self, several: list[Result]) -> Result:
        """Of dedups that gave the same dataset the first whose blobs are there, or else the first."""
        if len(several) == 1:
            return several[0]
        there = (each for each in several if not evidence.missing(self._blobs, StageName.DEDUP, each))
        return next(there, several[0])

    def logic_version(self, stage: StageName, recipe: Recipe, source: Source, given: Given) -> str:
        """The version of the stage's logic today, as its owner says."""
        if stage is StageName.INGEST and given.before is None:
            return source.logic_version
        if stage is StageName.EVALUATION:
            assert source.evaluation is not None
            return source.evaluation.logic_version
        if stage is StageName.TRAIN:
            return TRAINING_VERSION
        return str(self._create(stage, "", spec_of(stage, recipe, source, given, ""), validate_only=True))

    def create(self, stage: StageName, name: str, spec: Spec) -> None:
        """Ask for the stage's work; the same again changes nothing."""
        self._create(stage, name, spec, validate_only=False)

    def _create(self, stage: StageName, name: str, spec: Any, *, validate_only: bool) -> str:
        common: Any = {"request_id": name, "name": name, "spec": spec, "validate_only": validate_only}
        if stage is StageName.TRAIN:
            self._scheduler.CreateJob(CreateJobRequest(**common))
            return TRAINING_VERSION
        work = self._works[stage]
        return str(getattr(work.create(work.request(**common)), work.made).spec.logic_version)

    def files(self, stage: StageName, name: str) -> int:
        """How many pages a crawl visited, or an ingest read, be it from few files; 0 where that is not known."""
        try:
            work = self._works[stage].get(GetRequest(name=name))
        except NotFound:
            return 0
        if stage is StageName.CRAWL:
            return sum(each.pages for each in work.counts if each.what == "visited/page")
        return max(int(work.files), int(work.documents) + int(work.rejected))

    def see(self, stage: StageName, name: str) -> Seen | None:
        """The stage's resource, None when its owner has not heard of it."""
        request = GetRequest(name=name)
        try:
            if stage is not StageName.TRAIN:
                return seen_work(self._works[stage].get(request))
            job: Job = self._scheduler.GetJob(request)
        except NotFound:
            return None
        seen = seen_job(job)
        return self._trained(job, seen) if seen.result else seen

    def _trained(self, job: Job, seen: Seen) -> Seen:
        name = f"checkpoints/{job.name.removeprefix('jobs/')}/{job.line}/{job.decided_step}"
        try:
            checkpoint = self._committer.GetCheckpoint(GetRequest(name=name))
        except NotFound:
            return Seen(job.name, STATE_FAILED, f"its last checkpoint {name} is not known to the committer", None)
        if checkpoint.state in (CHECKPOINT_STATE_QUARANTINED, CHECKPOINT_STATE_PRUNED):
            what = f"its last checkpoint {name} is {CheckpointState.Name(checkpoint.state)}: {checkpoint.reason}"
            return Seen(job.name, STATE_FAILED, what, None)
        return Seen(job.name, seen.state, "", Result(job.name, checkpoint.manifest_key, checkpoint.state_digest))

    def before(self, stage: StageName, result: Result) -> Iterator[Result]:
        """What a stage made on the way to its result and its owner still promises: the checkpoints of a training."""
        token = ""
        while stage is StageName.TRAIN:
            page = self._committer.ListCheckpoints(
                ListRequest(filter=f"job={result.resource}", page_size=PAGE, page_token=token)
            )
            for each in page.checkpoints:
                if each.state == CHECKPOINT_STATE_COMMITTED and each.manifest_key != result.manifest_key:
                    yield Result(result.resource, each.manifest_key, each.state_digest)
            token = page.next_page_token
            if not token:
                return

    def cancel(self, stage: StageName, name: str) -> None:
        """End the stage's work; of ended or unknown work nothing changes."""
        request = CancelRequest(name=name, request_id=f"{name}/cancel")
        try:
            call: Any = self._scheduler.CancelJob if stage is StageName.TRAIN else self._works[stage].cancel
            call(request)
        except (NotFound, Refused):
            return


class _Shown(str):
    """A value as an owner has shown it already."""

    def __repr__(self) -> str:
        return str(self)
