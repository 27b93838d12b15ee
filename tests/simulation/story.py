"""The story that a seed of the campaign tells: runs over a folder of pages, with everything that may befall them.

Promises: whatever was injected, what a script leaves is the same but for the cancelled run, which may have come any
distance; so the canonical state of any seed can be compared with that of a calm one of the same script.
"""

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from google.protobuf.message import Message
from sqlalchemy import MetaData

from tests.policies import epoch_of, plant_epoch, report_of
from tests.simulation.platform import NODE_RATES, RATES, NodeFault, Platform
from tutti.backbone import Kind
from tutti.chassis.errors import NotFound, Refused, StaleEpoch
from tutti.chassis.events.catalog import event_type, every_event
from tutti.chassis.identity.auth import Role
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.manifest import CheckpointBody
from tutti.checkpoints.writer import Snapshot, describe, plan_of, store
from tutti.committer.records import Records
from tutti.committer.tables import Tables
from tutti.contracts.access.v1 import CreateUserRequest
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.contracts.annotation.v1 import (
    CROWD_SIMULATED,
    Axis,
    CampaignSpec,
    CreateCampaignRequest,
    CreateDemonstrationsRequest,
    CreatePreferencesRequest,
    DemonstrationsSpec,
    FindDemonstrationsRequest,
    PreferencesSpec,
    SimulatedCrowd,
)
from tutti.contracts.annotation.v1.stubs import AnnotationServiceStub
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_QUARANTINED,
    Checkpoint,
    DivergenceDetected,
    ReportShardRequest,
    VerifyCheckpointRequest,
)
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import (
    STATE_CANCELLED,
    STATE_DONE,
    STATE_FAILED,
    CancelRequest,
    GetRequest,
    ListRequest,
)
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    ComparedSample,
    ComparisonSpec,
    CreateComparisonRequest,
    CreateReleaseRequest,
    Release,
    ReleasedComparison,
    ReleaseSpec,
    RevokeReleaseRequest,
)
from tutti.contracts.evaluation.v1.stubs import ComparisonServiceStub, ReleaseServiceStub
from tutti.contracts.ingest.v1 import (
    ClassifierSpec,
    ConversationsSpec,
    CrawlSpec,
    CreateClassifierRequest,
    CreateConversationsRequest,
    CreateCrawlRequest,
    CreateRetractionRequest,
    RetractionSpec,
)
from tutti.contracts.ingest.v1.stubs import ConversationsServiceStub, IngestServiceStub
from tutti.contracts.options.v1 import ROLE_ENGINEER
from tutti.contracts.pipeline.v1 import CreateRunRequest, Run
from tutti.contracts.pipeline.v1.stubs import PipelineServiceStub
from tutti.contracts.sampling.v1 import (
    FORMAT_HUGGING_FACE,
    CreateExportRequest,
    CreateSampleRequest,
    ExportSpec,
    SampleSpec,
)
from tutti.contracts.sampling.v1.stubs import ExperienceServiceStub, SamplingServiceStub
from tutti.contracts.scheduler.v1 import EpochOpened, RankLost, ReshapeJobRequest
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.corpus.conversations.conversations import Message as Said
from tutti.corpus.conversations.conversations import Role as Author
from tutti.corpus.conversations.experience import Experience, Prompt, Rollout
from tutti.model.plan import Shape
from tutti.pipeline.plans.graph import node_of
from tutti.pipeline.plans.reading import read
from tutti.simulation import Control, Fault, SimulationFailed
from tutti.simulation.oracle import records

T = TypeVar("T")
F = TypeVar("F", Fault, NodeFault)

MAIN, AGAIN, CANCELLED = "runs/main", "runs/again", "runs/cancelled"
SETTLE_TURNS = 3_000
_NOTHING = np.zeros(1, np.float32)
EXPERIENCE = Experience(
    iteration=0,
    step=0,
    policy=f"blake3:{'0' * 64}",
    prompts=[Prompt((Said(Author.USER, "x"),), (1,))],
    rollouts=[Rollout(0, 0, (2,), _NOTHING, _NOTHING, "y", "end", 1.0, 0.0, False)],
)
CALM: Mapping[Fault, float] = {}
CALM_NODES: Mapping[NodeFault, float] = {}


@dataclass(frozen=True)
class Script:
    """What a seed plays. `pages` of the folder are read (0: all); training takes `steps` on `ranks`, with a checkpoint
    after `every` so many; `reshape` (0: not) is the number of ranks it is asked to go on with once it has one."""

    pages: int = 0
    steps: int = 2
    every: int = 1
    ranks: int = 1
    reshape: int = 0
    diverges: bool = False
    """a rank of a sealed epoch reports another state of a decided step"""
    damages: bool = False
    """a bit of the first checkpoint flips before it is verified again"""
    index: bool = False
    """the run ends with an index of its dataset"""
    again: bool = False
    """another run of the same pages follows"""
    retracts: bool = False
    """a page is retracted before that"""
    cancels: bool = False
    """a run beside the main one is cancelled at some time"""
    replicas: int = 1

    @property
    def calm(self) -> "Script":
        """The script that leaves the same."""
        return replace(self, diverges=False, cancels=False, replicas=1)


SCRIPTS = (
    Script(),
    Script(steps=2, ranks=2, damages=True, index=True),
    Script(steps=3, ranks=1, reshape=2),
    Script(pages=3, steps=4, every=2, ranks=2, reshape=3, damages=True),
    Script(pages=3, steps=3, ranks=2, reshape=1),
    Script(pages=4, steps=4, every=2, ranks=3, again=True, retracts=True, index=True),
    Script(pages=4, steps=3, ranks=4, reshape=2),
)


BESIDE = Script(pages=2)
"""The script of the run that is cancelled."""
FORCES = (0.0, 0.3, 1.0, 2.0)


def weather(seed: int, rates: Mapping[F, float]) -> dict[F, float]:
    """Which faults strike a seed, and how often: what never meets while everything strikes meets when some are away."""
    chance = random.Random(f"weather {seed}")
    return {fault: rate * chance.choice(FORCES) for fault, rate in rates.items()}


def script_of(seed: int) -> Script:
    """One of the scripts, with or without what leaves nothing; on one replica of each service, or sometimes two."""
    chance = random.Random(f"script {seed}")
    return replace(
        chance.choice(SCRIPTS),
        diverges=chance.random() < 0.6,
        cancels=chance.random() < 0.4,
        replicas=1 + (chance.random() < 0.15),
    )


def write_pages(folder: Path) -> None:
    """Six pages: two of them equal, one that no reader can read."""
    for number in range(5):
        words = f"Page {number % 4} is about parts of a whole. " + "A longer story follows, word by word. " * 3
        (folder / f"{number}.html").write_text(
            f"<html><body><p>{words}</p><p>{'tutti ' * (number % 4)}</p></body></html>"
        )
    (folder / "5.html").write_bytes(bytes(range(256)))


def recipe(pages: Path, script: Script) -> str:
    return f"""
name: simulated
size: tiny
input: {{path: {pages}, limit: {script.pages}}}
tokenizer: {{vocabulary: 258}}
data: {{context: 8, validation_fraction: 0.3}}
train:
  steps: {script.steps}
  ranks: {script.ranks}
  microbatches: 4
  rows: 1
  checkpoint_every: {script.every}
  attempts: 100000
index: {str(script.index).lower()}
"""


@dataclass(frozen=True)
class Played:
    """What a seed did, and what it left."""

    turns: int
    trace: str
    faults: Counter[Fault]
    node_faults: Counter[NodeFault]
    events: Counter[str]
    export: tuple[str, ...]
    reshaped: bool
    diverged: bool


class Story:
    """One seed over all services."""

    def __init__(
        self,
        seed: int | str,
        script: Script,
        pages: Path,
        *,
        rates: Mapping[Fault, float] = RATES,
        node_rates: Mapping[NodeFault, float] = NODE_RATES,
        control: Control | None = None,
    ) -> None:
        self.seed, self.script, self.pages = seed, script, pages
        self.platform = Platform(seed, rates=rates, node_rates=node_rates, control=control, replicas=script.replicas)
        self.simulation = self.platform.simulation
        self.pipeline = PipelineServiceStub(self.simulation.channel("pipeline"))
        self.ingest = IngestServiceStub(self.simulation.channel("ingest"))
        self.conversations = ConversationsServiceStub(self.simulation.channel("ingest"))
        self.comparisons = ComparisonServiceStub(self.simulation.channel("evaluation"))
        self.releases = ReleaseServiceStub(self.simulation.channel("evaluation"))
        self.sampling = SamplingServiceStub(self.simulation.channel("sampling"))
        self.experiences = ExperienceServiceStub(self.simulation.channel("sampling", Role.AGENT))
        self.annotation = AnnotationServiceStub(self.simulation.channel("annotation"))
        self.access = AccessServiceStub(self.simulation.channel("access", Role.OPERATOR))
        self.scheduler = SchedulerServiceStub(self.simulation.channel("scheduler"))
        self.committer = CommitterServiceStub(self.simulation.channel("committer"))
        self.as_agent = CommitterServiceStub(self.simulation.channel("committer", Role.AGENT))
        self.job = node_of(read(recipe(pages, script)), "train").resource(MAIN)
        self.reshaped, self.diverged = False, 0

    def tell(self) -> None:
        """Everything up to the last call."""
        script = self.script
        for node in ("a", "b"):
            self.platform.add_node(node)
        if script.cancels:
            self.create(CANCELLED, BESIDE)
        self.create(MAIN, script)
        self.ask_in_vain()
        if script.cancels:
            self.simulation.run(max_turns=self.simulation.fate.count(0, 400))
            self.call(lambda: self.pipeline.CancelRun(CancelRequest(name=CANCELLED, request_id="cancel")))
        if script.reshape:
            self.reshape_and_lose_a_rank()
        self.until_ended(MAIN)
        if script.diverges:
            self.diverge()
        if script.damages:
            self.damage()
        if script.retracts:
            wanted = CreateRetractionRequest(request_id="retract", spec=RetractionSpec(source="0.html"))
            self.call(lambda: self.ingest.CreateRetraction(wanted))
        if script.again:
            self.create(AGAIN, replace(script, steps=1, every=1, ranks=1))
            self.until_ended(AGAIN)

    def tell_alone(self, name: str) -> None:
        """This run and no other."""
        self.platform.add_node("a")
        self.create(name, self.script)
        self.until_ended(name)

    def call(self, call: Callable[[], T]) -> T:
        return self.simulation.insist(call)

    def create(self, name: str, script: Script) -> None:
        text = recipe(self.pages, script)
        self.call(lambda: self.pipeline.CreateRun(CreateRunRequest(request_id=name, name=name, recipe=text)))

    def plant_release(self, unit: Unit) -> None:
        """One that passed, which needs a real policy to be made."""
        resources = self.simulation.lives["evaluation"][0].parts.service.resources
        resource = next(each for each in resources if each.kind == "releases")
        resource.create(unit, Release(name="releases/planted", state=STATE_DONE, standing=STANDING_ACTIVE))

    def ask_in_vain(self) -> None:
        """Create what the other kinds of events need: a user, an experience, and resources that need the web or a real
        model (a crawl that excludes its own seed, a checkpoint or a folder that does not exist)."""
        site = ["http://a.example/"]
        spec = CrawlSpec(seeds=site, without=site, contact="me@a.example", skip_sitemaps=True)
        crawl = CreateCrawlRequest(request_id="crawl", name="crawls/nothing", spec=spec)
        self.call(lambda: self.ingest.CreateCrawl(crawl))
        nothing = "checkpoints/nothing/0/1"
        asked = SampleSpec(checkpoint=nothing, prompts=["x"], tokens=1)
        sample = CreateSampleRequest(request_id="sample", name="samples/nothing", spec=asked)
        self.call(lambda: self.sampling.CreateSample(sample))
        wanted = ExportSpec(checkpoint=nothing, format=FORMAT_HUGGING_FACE)
        export = CreateExportRequest(request_id="export", name="exports/nothing", spec=wanted)
        self.call(lambda: self.sampling.CreateExport(export))
        learnt = ClassifierSpec(input_path="/nowhere", keeps="kept")
        classifier = CreateClassifierRequest(request_id="classifier", name="classifiers/nothing", spec=learnt)
        self.call(lambda: self.ingest.CreateClassifier(classifier))
        prompts = ConversationsSpec(input_path="/nowhere")
        gather = CreateConversationsRequest(request_id="prompts", name="conversations/nothing", spec=prompts)
        self.call(lambda: self.conversations.CreateConversations(gather))
        comparison = ComparisonSpec(
            baseline=ComparedSample(name="samples/nothing"),
            candidate=ComparedSample(name="samples/nothing"),
            crowd="utility: letters@1",
            annotators=2,
            overlap=1,
        )
        compare = CreateComparisonRequest(request_id="compare", name="comparisons/nothing", spec=comparison)
        self.call(lambda: self.comparisons.CreateComparison(compare))
        gate = ReleaseSpec(comparisons=[ReleasedComparison(name="comparisons/none")], win=0.5)
        release = CreateReleaseRequest(request_id="release", name="releases/nothing", spec=gate)
        self.call(lambda: self.releases.CreateRelease(release))
        self.simulation.peek("evaluation", self.plant_release)
        revoke = RevokeReleaseRequest(request_id="revoke", name="releases/planted", reason="to see it")
        self.call(lambda: self.releases.RevokeRelease(revoke))
        experience = EXPERIENCE.encode()
        told = report_of("jobs/nothing", EXPERIENCE, node="nodes/a", epoch=1)
        self.simulation.world.blobs.put_if_absent(told.key, experience)
        self.simulation.peek("committer", lambda unit: plant_epoch(unit, epoch_of("jobs/nothing", 1, "nodes/a")))
        self.call(lambda: self.experiences.ReportExperience(told))
        crowd = "utility: letters@1\nkinds: [{name: fair, share: 1.0, sharpness: [2, 3]}]"
        judged = CampaignSpec(
            pairs="".join(
                f'{{"prompt":[{{"role":"user","content":"copy a b c d {letter}"}}],'
                f'"answers":["a b c d {letter}","a b um"]}}\n'
                for letter in "efgh"
            ),
            guideline="Prefer the better copy.",
            axes=[Axis(name="helpful")],
            crowd=CROWD_SIMULATED,
            simulated=SimulatedCrowd(annotators=2, crowd=crowd),
        )
        campaign = CreateCampaignRequest(request_id="campaign", name="campaigns/letters", spec=judged)
        self.call(lambda: self.annotation.CreateCampaign(campaign))
        fitted = PreferencesSpec(campaign="campaigns/letters", manifest_key="gone", content_digest="gone")
        preferences = CreatePreferencesRequest(request_id="preferences", name="preferences/nothing", spec=fitted)
        self.call(lambda: self.annotation.CreatePreferences(preferences))
        find = FindDemonstrationsRequest(campaign="campaigns/letters")
        accepted = self.call(lambda: self.annotation.FindDemonstrations(find)).accepted
        published = DemonstrationsSpec(accepted=[accepted])
        demonstrations = CreateDemonstrationsRequest(
            request_id="demonstrations", name="demonstrations/nothing", spec=published
        )
        self.call(lambda: self.annotation.CreateDemonstrations(demonstrations))
        user = CreateUserRequest(request_id="user", display_name="Ada Example", roles=[ROLE_ENGINEER])
        self.call(lambda: self.access.CreateUser(user))

    def until_ended(self, name: str) -> None:
        def ended() -> bool:
            run: Run = self.call(lambda: self.pipeline.GetRun(GetRequest(name=name)))
            if run.state == STATE_FAILED:
                raise SimulationFailed(f"seed {self.seed}: {name} failed: {run.reason}")
            return run.state in (STATE_DONE, STATE_CANCELLED)

        self.simulation.run(until=ended, max_turns=100_000, every=50)

    def reshape_and_lose_a_rank(self) -> None:
        """When the job has a checkpoint: another number of ranks, and one of those that run is killed."""

        def decided() -> bool:
            if not self.published(Checkpoint):
                return False
            try:
                return bool(self.call(lambda: self.scheduler.GetJob(GetRequest(name=self.job))).decided_step)
            except NotFound:
                return False

        self.simulation.run(until=decided, max_turns=100_000, every=10)
        request = ReshapeJobRequest(
            request_id="reshape", job=self.job, data_parallel=self.script.reshape, cause="to see it"
        )
        try:
            self.call(lambda: self.scheduler.ReshapeJob(request))
        except Refused:  # the job was faster
            return
        self.reshaped = True
        ranks = [rank for rank in self.platform.running if rank.step and not rank.finished]
        if ranks:
            self.simulation.fate.choose(ranks).kill()

    def published(self, event: type[Message]) -> bool:
        """Whether there is anything in the topic of this event."""
        return any(self.simulation.world.log.end_offsets(event_type(event).topic).values())

    def checkpoints(self) -> list[Checkpoint]:
        found = self.call(lambda: self.committer.ListCheckpoints(ListRequest(page_size=100))).checkpoints
        return [each for each in found if each.job == self.job]

    def diverge(self) -> None:
        """A rank of a sealed epoch, which nobody waits for any more, reports another state of a decided step."""
        blobs = self.simulation.world.blobs
        for checkpoint in sorted(self.checkpoints(), key=lambda each: each.step, reverse=True):
            body = CheckpointBody.decode(blobs.get(checkpoint.manifest_key))
            for epoch in range(checkpoint.epoch - 1, 0, -1):
                name = ShardName(body.job, body.line, body.step, epoch, 0)
                if any(True for _ in blobs.list(f"trainer/reports/{body.job}.{body.line}.{body.step}.{epoch}.")):
                    continue
                node = self.simulation.peek("committer", functools.partial(self._holder, name=name))
                if node is not None:
                    self._report_other(name, node, body)
                    self.diverged = 1
                    return

    def _report_other(self, name: ShardName, node: str, body: CheckpointBody) -> None:
        shape = Shape(dp=1)
        data = bytearray(plan_of(body.training, shape).snapshot_size(0))
        snapshot = Snapshot(name, node, shape, body.training, body.kernel, body.scalars, body.loss)
        report = describe(memoryview(data), snapshot)
        stored = store(self.simulation.world.blobs, report, memoryview(data))
        request = ReportShardRequest(
            job=self.job,
            line=name.line,
            step=name.step,
            epoch=name.epoch,
            rank=name.rank,
            node=node,
            report_key=stored.report_key,
            report_digest=stored.report_digest,
        )
        try:
            self.call(lambda: self.as_agent.ReportShard(request))
        except StaleEpoch:
            # The answer has arrived; what the committer still had in its memory is gone.
            if self.simulation.fate.choose([True, False]):
                self.simulation.crash("committer")
            return
        raise SimulationFailed(f"seed {self.seed}: a report of sealed epoch {name.epoch} was taken")

    def _holder(self, unit: Unit, name: ShardName) -> str | None:
        """A node that held a rank of a sealed epoch; None if the epoch never opened."""
        records = Records(Tables(MetaData()))
        open_ = records.locked_epoch(unit, name.job)
        held = (node for node in ("nodes/a", "nodes/b") if records.held(unit, open_, name.epoch, node))
        return next(held, None)

    def damage(self) -> None:
        """A bit of an old checkpoint flips; whoever verifies it sees that, and it is quarantined."""
        name = next(each.name for each in self.checkpoints() if each.step == self.script.every)
        checkpoint = self.call(lambda: self.committer.GetCheckpoint(GetRequest(name=name)))
        body = CheckpointBody.decode(self.simulation.world.blobs.get(checkpoint.manifest_key))
        path = self.platform.blob(body.blobs[0].key)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.chmod(0o600)
        path.write_bytes(data)
        verified = self.call(lambda: self.committer.VerifyCheckpoint(VerifyCheckpointRequest(name=name)))
        if verified.ok or verified.checkpoint.state != CHECKPOINT_STATE_QUARANTINED:
            raise SimulationFailed(f"seed {self.seed}: a flipped bit of {name} was not seen")

    def settle(self, done: Callable[[tuple[str, ...]], bool]) -> None:
        """Without faults until nothing waits and `done(canonical lines)`; examined. What is not done by then is found
        by whoever compares."""
        try:
            self.simulation.settle(
                until=lambda: self.divergences() == self.diverged and done(tuple(self.platform.export())),
                max_turns=SETTLE_TURNS,
            )
        except SimulationFailed:
            self.simulation.settle()  # longer: a task may wait for a moment before which the clock was set back
        self.simulation.examine()
        self.require_single_facts()

    def require_single_facts(self) -> None:
        """An epoch was opened once, a rank was lost once an epoch; none of them twice."""
        seen: Counter[str] = Counter()
        for event in self.decoded():
            match event:
                case EpochOpened():
                    seen[f"epoch {event.epoch} of {event.job}"] += 1
                case RankLost():
                    seen[f"loss of rank {event.rank} in epoch {event.epoch} of {event.job}"] += 1
                case DivergenceDetected():
                    seen[f"divergence of epoch {event.epoch} at {event.checkpoint}"] += 1
        if twice := [what for what, count in seen.items() if count > 1]:
            raise SimulationFailed(f"seed {self.seed}: two facts say the {twice[0]}")
        if (divergences := self.divergences()) != self.diverged:
            raise SimulationFailed(f"seed {self.seed}: {divergences} divergences were named, {self.diverged} happened")

    def divergences(self) -> int:
        return sum(isinstance(event, DivergenceDetected) for event in self.decoded())

    def decoded(self) -> Iterator[Message]:
        """Every distinct FACT in the log."""
        known: set[str] = set()
        for kind in every_event():
            if kind.kind is not Kind.FACT:
                continue
            for record in records(self.simulation.world.log, kind.topic):
                if record.headers["ce_type"] == kind.type and record.headers["ce_id"] not in known:
                    known.add(record.headers["ce_id"])
                    yield kind.message.FromString(record.value)

    def played(self) -> Played:
        simulation = self.simulation
        return Played(
            turns=simulation.turns,
            trace=simulation.trace,
            faults=Counter(simulation.faults),
            node_faults=Counter(self.platform.node_faults),
            events=simulation.events,
            export=tuple(self.platform.export()),
            reshaped=self.reshaped,
            diverged=bool(self.diverged),
        )

    def close(self) -> None:
        self.platform.close()
