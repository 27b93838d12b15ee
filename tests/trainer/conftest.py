"""A control plane in one object, a tiny dataset, and real agents that serve it."""

import dataclasses
import itertools
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tutti.backbone import SystemClock
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import RealFiles, make_folders
from tutti.chassis.errors import NotFound, StaleEpoch, Unavailable
from tutti.checkpoints.report import ShardReport
from tutti.contracts.committer.v1 import (
    ClaimVerificationRequest,
    ClaimVerificationResponse,
    ReportShardRequest,
    ReportShardResponse,
    ReportVerificationRequest,
    ReportVerificationResponse,
)
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.sampling.v1 import Experience, ReportExperienceRequest
from tutti.contracts.scheduler.v1 import (
    RANK_EVENT_LISTENING,
    RANK_EVENT_LOST,
    Assignment,
    HeartbeatRequest,
    HeartbeatResponse,
    MixedDataset,
    Node,
    RegisterNodeRequest,
    ReportProgressRequest,
    ReportProgressResponse,
    ReportRankRequest,
    ReportRankResponse,
    ReportReleasedRequest,
    ReportReleasedResponse,
    ReportStallRequest,
    ReportStallResponse,
)
from tutti.corpus.tokens.dataset import DatasetBody, ShardEntry, Split
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard
from tutti.model.plan import Shape
from tutti.model.shapes import to_wire
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training, WeightedDataset
from tutti.trainer.agent.agent import Agent, AgentState
from tutti.trainer.agent.backgroundcalls import ThreadedCalls
from tutti.trainer.agent.forkclient import ForkClient
from tutti.trainer.agent.iolink import ProcessIoLink
from tutti.trainer.agent.journal import Journal
from tutti.trainer.agent.launcher import ProcessLauncher
from tutti.trainer.agent.ports import AgentSettings
from tutti.trainer.io.buffers import buffer_folder, clear, remove
from tutti.trainer.io.iosettings import IoSettings

CONTEXT, VOCABULARY, STEPS = 16, 97, 6
JOB = "jobs/tiny"


@dataclasses.dataclass(frozen=True)
class Made:
    """A dataset in the blob store, and a training over it."""

    manifest_key: str
    digest: str
    training: Training


def make_dataset(blobs: EmbeddedBlobs, seed: int = 7) -> tuple[str, str]:
    """The manifest's key and content digest; two training shards and one validation shard."""
    random = np.random.default_rng(seed)
    tokens = random.integers(1, VOCABULARY, size=64 * CONTEXT + 1)

    def split(name: str, sequences: list[int]) -> Split:
        entries, first = [], 0
        for number, count in enumerate(sequences):
            begin = first * CONTEXT
            run = TokenRun(
                tokens=tokens[begin : begin + count * CONTEXT + 1],
                tokens_used=count * CONTEXT + 1,
                starts=np.array([0, 5, 21]),
                doc_ids=[f"{hash_:064x}" for hash_ in range(10 * number + 1, 10 * number + 4)],
                context=CONTEXT,
                vocabulary=VOCABULARY,
                eos=0,
                first_sample=first,
            )
            data, info = encode_token_shard(run)
            key = f"tokenization/token-shards/{info.bytes_digest.removeprefix('blake3:')}.bin"
            blobs.put_if_absent(key, data)
            entries.append(
                ShardEntry(
                    shard_id=info.content_digest,
                    blob=key,
                    bytes=info.bytes,
                    bytes_digest=info.bytes_digest,
                    sequences=info.sequences,
                    tokens=info.tokens,
                    first_sample=info.first_sample,
                    documents=info.documents,
                    first_doc_id=info.first_doc_id,
                    last_doc_id=info.last_doc_id,
                )
            )
            first += count
        return Split(tuple(entries), 3 * len(entries), first, first * CONTEXT, 4 * first * CONTEXT)

    body = DatasetBody(
        tokenizer_version="blake3:" + "1" * 64,
        vocabulary=VOCABULARY,
        eos=0,
        context=CONTEXT,
        train=split("train", [30, 20]),
        validation=split("validation", [5]),
    )
    manifest = body.manifest(parents=(), producer="test")
    key = f"tokenization/manifests/{manifest.content_digest.removeprefix('blake3:')}.json"
    blobs.put_if_absent(key, manifest.encode())
    return key, manifest.content_digest


class ControlPlane:
    """Scheduler and committer as an agent sees them, without their rules: what it was told, and what it is to do."""

    def __init__(self, blobs: EmbeddedBlobs) -> None:
        self.blobs = blobs
        self.nodes: dict[str, Node] = {}
        self.ranks: list[ReportRankRequest] = []
        self.progress: list[ReportProgressRequest] = []
        self.released: list[ReportReleasedRequest] = []
        self.stalls: list[ReportStallRequest] = []
        self.left: dict[str, int] = {}  # of a node that leaves: how many reports had come
        self.shards: list[ReportShardRequest] = []
        self.verifications: list[ReportVerificationRequest] = []
        self.experiences: list[ReportExperienceRequest] = []
        self.claims: list[ClaimVerificationResponse] = []
        self.away = False
        self.lowest_epoch = 0
        self._lock = threading.RLock()

    def assign(self, node: str, *assignments: Assignment) -> None:
        with self._lock:
            kept = self.nodes[f"nodes/{node}"]
            del kept.assignments[:]
            kept.assignments.extend(assignments)
            kept.revision += 1

    def events(self, event: int) -> list[ReportRankRequest]:
        with self._lock:
            return [each for each in self.ranks if each.event == event]

    @property
    def losses(self) -> list[ReportRankRequest]:
        return self.events(RANK_EVENT_LOST)

    @property
    def last_step(self) -> int:
        with self._lock:
            return self.progress[-1].step if self.progress else 0

    def RegisterNode(self, request: RegisterNodeRequest) -> Node:
        with self._reachable():
            node = self.nodes.setdefault(request.name, Node(name=request.name))
            node.incarnation, node.slots, node.address = request.incarnation, request.slots, request.address
            node.revision += 1
            return self._copy(node)

    def GetNode(self, request: GetRequest) -> Node:
        with self._reachable():
            if request.name not in self.nodes:
                raise NotFound(request.name)
            return self._copy(self.nodes[request.name])

    def Heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        with self._reachable():
            if request.leaving:
                self.left.setdefault(request.name, len(self.ranks) + len(self.released))
            return HeartbeatResponse(revision=self.nodes[request.name].revision)

    def ReportRank(self, request: ReportRankRequest) -> ReportRankResponse:
        with self._reachable():
            if request.epoch < self.lowest_epoch:
                raise StaleEpoch(f"epoch {request.epoch} is over")
            for rank in (request.rank, *request.more_ranks):
                told = ReportRankRequest()
                told.CopyFrom(request)
                told.rank = rank
                self.ranks.append(told)
            if request.event == RANK_EVENT_LISTENING:
                for node in self.nodes.values():
                    for assignment in node.assignments:
                        if (assignment.job, assignment.epoch) == (request.job, request.epoch):
                            assignment.rendezvous = request.address
                            node.revision += 1
            return ReportRankResponse()

    def ReportProgress(self, request: ReportProgressRequest) -> ReportProgressResponse:
        with self._reachable():
            self.progress.append(request)
            return ReportProgressResponse()

    def ReportReleased(self, request: ReportReleasedRequest) -> ReportReleasedResponse:
        with self._reachable():
            self.released.append(request)
            return ReportReleasedResponse()

    def ReportStall(self, request: ReportStallRequest) -> ReportStallResponse:
        with self._reachable():
            self.stalls.append(request)
            return ReportStallResponse(inquiry=max(request.inquiry, 1))

    def ReportShard(self, request: ReportShardRequest) -> ReportShardResponse:
        with self._reachable():
            self.shards.append(request)
            return ReportShardResponse()

    def ClaimVerification(self, request: ClaimVerificationRequest) -> ClaimVerificationResponse:
        with self._reachable():
            return self.claims.pop(0) if self.claims else ClaimVerificationResponse()

    def ReportVerification(self, request: ReportVerificationRequest) -> ReportVerificationResponse:
        with self._reachable():
            self.verifications.append(request)
            return ReportVerificationResponse()

    def ReportExperience(self, request: ReportExperienceRequest) -> Experience:
        with self._reachable():
            self.experiences.append(request)
            return Experience()

    def reports(self) -> dict[tuple[int, int, int], ShardReport]:
        """Every shard that was reported, by (step, epoch, rank), read back from the store."""
        with self._lock:
            told = list(self.shards)
        return {
            (each.step, each.epoch, each.rank): ShardReport.decode(
                self.blobs.get(each.report_key), digest=each.report_digest
            )
            for each in told
        }

    def digests(self, epoch: int) -> dict[int, dict[tuple[int, str], str]]:
        """Of every step, of every (chunk, kind), the digest that a rank of this epoch reported."""
        found: dict[int, dict[tuple[int, str], str]] = {}
        for (step, of, _), report in self.reports().items():
            if of == epoch:
                for entry in report.chunks:
                    found.setdefault(step, {})[entry.chunk, entry.kind.value] = entry.digest.hex()
        return found

    def _reachable(self) -> threading.RLock:
        if self.away:
            raise Unavailable("the control plane is away")
        return self._lock

    @staticmethod
    def _copy(node: Node) -> Node:
        copy = Node()
        copy.CopyFrom(node)
        return copy


class RunningAgent:
    """A real agent on a thread of its own, with a real I/O child and real ranks."""

    _numbers = itertools.count(1)

    def __init__(
        self, plane: ControlPlane, folder: Path, blobs: Path, settings: AgentSettings, server: ForkClient | None
    ) -> None:
        self.state = folder
        files, clock = RealFiles(), SystemClock()
        make_folders(files, folder)
        self.buffers = buffer_folder(folder)
        self.journal = Journal(folder / "journal.json", files)
        self.journal.kill_orphans()
        clear(self.buffers)
        self.launcher = ProcessLauncher(server)
        self.io = ProcessIoLink(
            IoSettings(settings.node, f"file://{blobs}", state=str(folder), buffers=str(self.buffers)),
            clock,
            silence=6.0,
        )
        self.agent = Agent(
            settings,
            incarnation=f"i{next(self._numbers)}",
            scheduler=plane,
            committer=plane,
            sampling=plane,
            background=ThreadedCalls(),
            clock=clock,
            launcher=self.launcher,
            io=self.io,
            journal=self.journal,
        )
        self._halt, self._drained = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self._halt.is_set() and self.agent.state is not AgentState.DONE:
            if self._drained.is_set():
                self.agent.drain()
            if not self.agent.step():
                select.select([*self.launcher.filenos(), *self.io.filenos()], [], [], 0.05)

    def drain(self) -> None:
        """In the agent's own thread, as the program does it."""
        self._drained.set()

    def pids(self) -> dict[int, int]:
        """Of each rank its process."""
        found = {}
        for attempt in self.agent.attempts:
            for place in list(attempt._local_ranks.values()):
                if place.process.process is not None:
                    found[place.rank] = place.process.process.pid
        return found

    def stop(self) -> None:
        self._halt.set()
        self.thread.join(20)
        self.agent.close()
        remove(self.buffers)


class Stage:
    """What a test plays on: a blob store, a dataset, a control plane, any number of agents."""

    def __init__(self, folder: Path, server: ForkClient | None = None) -> None:
        self.folder, self.blob_folder, self.server = folder, folder / "blobs", server
        self.blobs = EmbeddedBlobs(self.blob_folder)
        self.plane = ControlPlane(self.blobs)
        self.manifest_key, self.digest = make_dataset(self.blobs)
        self.mixed: list[MixedDataset] = []
        self.agents: list[RunningAgent] = []

    def mix(self, training: Training, *weights: int) -> Training:
        """The same over its dataset and others, by these weights; assignments name them from now on."""
        made = [make_dataset(self.blobs, seed=seed) for seed in range(8, 7 + len(weights))]
        self.mixed = [MixedDataset(manifest_key=key, digest=digest) for key, digest in made]
        digests = (self.digest, *(digest for _, digest in made))
        mixture = tuple(WeightedDataset(*each) for each in zip(digests, weights, strict=True))
        return dataclasses.replace(training, mixture=mixture)

    def training(self, *, steps: int = STEPS, checkpoint_every: int = 2) -> Training:
        return Training(
            model=ModelSpec(vocabulary=VOCABULARY, width=16, layers=2, heads=2, kv_heads=2, hidden=32, context=CONTEXT),
            optimizer=OptimizerSpec(peak_rate=1e-3, steps=steps, warmup_steps=2),
            step=StepSpec(leaves=4, rows=2),
            dataset=self.digest,
            checkpoint_every=checkpoint_every,
            validate_every=3,
            audit_every=2,
        )

    def agent(self, node: str = "a", *, own_server: bool = False, **changes: object) -> RunningAgent:
        """Its ranks are forked from the server of all tests, unless the test is about the server."""
        settings = AgentSettings(
            node=node, slots=2, devices=("cpu",), silence=10.0, rendezvous=30.0, poll=0.05, heartbeat=0.5, claim=0.1,
            progress=0.05, dump=1.0, settle=0.3, drain=5.0,
        )  # fmt: skip
        agent = RunningAgent(
            self.plane,
            self.folder / f"node {node}",
            self.blob_folder,
            dataclasses.replace(settings, **changes),  # type: ignore[arg-type]
            None if own_server else self.server,
        )
        self.agents.append(agent)
        until(lambda: agent.agent.state is AgentState.SERVING)
        return agent

    def assignment(
        self,
        training: Training,
        *,
        epoch: int = 1,
        line: int = 0,
        ranks: tuple[int, ...] = (0,),
        dp: int = 1,
        **more: object,
    ) -> Assignment:
        return Assignment(
            job=JOB,
            epoch=epoch,
            ranks=ranks,
            shape=to_wire(Shape(dp=dp)),
            line=line,
            training=training.to_json(),
            dataset_manifest_key=self.manifest_key,
            dataset_digest=self.digest,
            mixed=self.mixed,
            **more,  # type: ignore[arg-type]
        )

    def hide_shards(self) -> None:
        """From now on the store cannot write what a trainer writes."""
        (self.blob_folder / "trainer").write_text("in the way")

    def show_shards(self) -> None:
        (self.blob_folder / "trainer").unlink()

    def close(self) -> None:
        for agent in self.agents:
            agent.stop()


def until(condition: Callable[[], object], seconds: float = 240.0) -> None:
    """Wait for a condition; the test fails when it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def server() -> Iterator[ForkClient]:
    """One import of torch for all tests."""
    found = ForkClient()
    yield found
    found.close()


@pytest.fixture
def stage(tmp_path: Path, server: ForkClient) -> Iterator[Stage]:
    found = Stage(tmp_path, server)
    yield found
    found.close()


@pytest.fixture
def wait() -> Callable[..., None]:
    return until


@pytest.fixture
def make_stage() -> Callable[[Path], Stage]:
    return Stage
