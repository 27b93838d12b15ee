"""Nothing waits in silence: every kind of resource says why its owner does not do what was asked of it.

The kinds are those of the event catalogue, so a new kind fails here until it has a request or an explanation.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from tests.simulation.platform import BUILDS
from tutti.backbone import Kind
from tutti.chassis.events.catalog import every_event
from tutti.chassis.identity.auth import Role
from tutti.contracts.annotation.v1 import (
    CROWD_PEOPLE,
    Axis,
    Campaign,
    CampaignSpec,
    CreateCampaignRequest,
    CreatePreferencesRequest,
    Preferences,
    PreferencesSpec,
)
from tutti.contracts.annotation.v1.stubs import AnnotationServiceStub
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.dedup.v1 import CreateDedupRequest, Dedup, DedupSpec
from tutti.contracts.dedup.v1.stubs import DedupServiceStub
from tutti.contracts.evaluation.v1 import (
    ComparedSample,
    Comparison,
    ComparisonSpec,
    CreateComparisonRequest,
    CreateReleaseRequest,
    Release,
    ReleasedComparison,
    ReleaseSpec,
)
from tutti.contracts.evaluation.v1.stubs import ComparisonServiceStub, ReleaseServiceStub
from tutti.contracts.ingest.v1 import (
    Classifier,
    ClassifierSpec,
    Conversations,
    ConversationsSpec,
    Crawl,
    CrawlSpec,
    CreateClassifierRequest,
    CreateConversationsRequest,
    CreateCrawlRequest,
    CreateFilterRequest,
    CreateIngestRequest,
    Filter,
    FilterSpec,
    Ingest,
    IngestSpec,
)
from tutti.contracts.ingest.v1.stubs import ConversationsServiceStub, IngestServiceStub
from tutti.contracts.pipeline.v1 import CreateRunRequest, Run
from tutti.contracts.pipeline.v1.stubs import PipelineServiceStub
from tutti.contracts.sampling.v1 import (
    FORMAT_HUGGING_FACE,
    CreateExportRequest,
    CreateSampleRequest,
    Export,
    ExportSpec,
    Sample,
    SampleSpec,
)
from tutti.contracts.sampling.v1.stubs import SamplingServiceStub
from tutti.contracts.scheduler.v1 import CreateJobRequest, Job, JobSpec, Node, RegisterNodeRequest
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.contracts.tokenization.v1 import (
    CreateIndexRequest,
    CreateTokenizationRequest,
    Index,
    IndexSpec,
    Tokenization,
    TokenizationSpec,
)
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training
from tutti.simulation import Simulation

DIGEST = "blake3:" + "0" * 64
GONE: dict[str, Any] = {"manifest_key": "gone/manifests/0.json", "content_digest": DIGEST}

EXPLAINED = {
    "Answer": "what was said: it is there or not",
    "Checkpoint": "made by the committer itself; a quarantined one has its reason (tests/commit)",
    "Demonstrations": "fails without an accepted answer, and says so (publishing/versions_test.py of annotation)",
    "Deployment": "starts processes of this machine, and says why it does not serve (tests/chat/service_test.py)",
    "Dataset": "what a tokenization made: it is there or not",
    "Tokenizer": "what a tokenization made: it is there or not",
    "Experience": "what an agent reported: it is there or not",
    "Import": "reads a folder of this machine, and says what is wrong in it (services/tutti/committer/imports_test.py)",
    "Line": "begun by an epoch; work on it that fails is told there (services/tutti/committer/troubles_test.py)",
    "Retraction": "an entry in a list, done when it is recorded",
    "Topology": "what an epoch began under; the job says why none begins",
    "Transition": "waits for its job, which says for what",
    "User": "a record: nothing is carried out for it",
}


@dataclass(frozen=True)
class Impossible:
    """A call that asks for what the owner cannot do, and what the resource then says."""

    message: type[Message]
    service: str
    stub: Callable[[Any], Any]
    request: Message
    says: str


def training() -> Training:
    return Training(
        model=ModelSpec(vocabulary=97, width=32, layers=1, heads=2, kv_heads=2, hidden=64, context=16),
        optimizer=OptimizerSpec(peak_rate=1e-3, steps=4),
        step=StepSpec(leaves=2),
        dataset=DIGEST,
        checkpoint_every=2,
    )


def cases(pages: Path, gone: Path) -> list[Impossible]:
    """`pages` is a folder that disappears once a run over it is recorded, `gone` one that never was."""
    ingest, tokens, sampling = IngestServiceStub, TokenizationServiceStub, SamplingServiceStub
    site = ["http://a.example/"]
    crawl = CrawlSpec(seeds=site, without=site, contact="me@a.example", skip_sitemaps=True)
    tokenization = TokenizationSpec(**GONE, vocabulary=300, context=16, validation_fraction=0.1)
    recipe = {"name": "gone", "input": {"path": str(pages)}, "train": {"steps": 2}}
    job = JobSpec(
        training=training().to_json(),
        training_digest=training().digest(),
        dataset_manifest_key=GONE["manifest_key"],
        dataset_digest=DIGEST,
        leaves=2,
        steps=4,
        data_parallel=2,
    )
    sample, export = SampleSpec(checkpoint="checkpoints/gone/0/1", prompts=["x"], tokens=1), "checkpoints/gone/0/1"
    gone_sample = ComparedSample(name="samples/gone", **GONE)
    comparison = ComparisonSpec(
        baseline=gone_sample, candidate=gone_sample, crowd="utility: letters@1", annotators=2, overlap=1
    )
    campaign = CampaignSpec(
        pairs='{"prompt": [{"role": "user", "content": "q"}], "answers": ["a", "a"]}',
        guideline="g",
        axes=[Axis(name="helpful")],
        crowd=CROWD_PEOPLE,
    )
    return [
        Impossible(Crawl, "ingest", ingest, CreateCrawlRequest(name="crawls/a", spec=crawl), "brought no page"),
        Impossible(
            Ingest,
            "ingest",
            ingest,
            CreateIngestRequest(name="ingests/a", spec=IngestSpec(input_path=str(gone))),
            "No such file or directory",
        ),
        Impossible(
            Filter,
            "ingest",
            ingest,
            CreateFilterRequest(name="filters/a", spec=FilterSpec(**GONE)),
            "gone/manifests/0.json",
        ),
        Impossible(
            Classifier,
            "ingest",
            ingest,
            CreateClassifierRequest(name="classifiers/a", spec=ClassifierSpec(input_path=str(gone), keeps="a")),
            "No such file or directory",
        ),
        Impossible(
            Conversations,
            "ingest",
            ConversationsServiceStub,
            CreateConversationsRequest(name="conversations/a", spec=ConversationsSpec(input_path=str(gone))),
            "No such file or directory",
        ),
        Impossible(
            Comparison,
            "evaluation",
            ComparisonServiceStub,
            CreateComparisonRequest(name="comparisons/a", spec=comparison),
            "gone/manifests/0.json",
        ),
        Impossible(
            Release,
            "evaluation",
            ReleaseServiceStub,
            CreateReleaseRequest(
                name="releases/a", spec=ReleaseSpec(comparisons=[ReleasedComparison(name="comparisons/gone")], win=0.5)
            ),
            "comparisons/gone",
        ),
        Impossible(
            Campaign,
            "annotation",
            AnnotationServiceStub,
            CreateCampaignRequest(name="campaigns/a", spec=campaign),
            "1 were left out since their answers are equal",
        ),
        Impossible(
            Preferences,
            "annotation",
            AnnotationServiceStub,
            CreatePreferencesRequest(name="preferences/a", spec=PreferencesSpec(campaign="campaigns/a", **GONE)),
            "gone/manifests/0.json",
        ),
        Impossible(
            Dedup,
            "dedup",
            DedupServiceStub,
            CreateDedupRequest(name="dedups/a", spec=DedupSpec(**GONE)),
            "gone/manifests/0.json",
        ),
        Impossible(
            Tokenization,
            "tokenization",
            tokens,
            CreateTokenizationRequest(name="tokenizations/a", spec=tokenization),
            "gone/manifests/0.json",
        ),
        Impossible(
            Index,
            "tokenization",
            tokens,
            CreateIndexRequest(name="indexes/a", spec=IndexSpec(**GONE)),
            "gone/manifests/0.json",
        ),
        Impossible(
            Sample, "sampling", sampling, CreateSampleRequest(name="samples/a", spec=sample), "gone/0/1 does not exist"
        ),
        Impossible(
            Export,
            "sampling",
            sampling,
            CreateExportRequest(name="exports/a", spec=ExportSpec(checkpoint=export, format=FORMAT_HUGGING_FACE)),
            "gone/0/1 does not exist",
        ),
        Impossible(
            Job,
            "scheduler",
            SchedulerServiceStub,
            CreateJobRequest(name="jobs/a", spec=job),
            "waiting for nodes with 2 free slots",
        ),
        Impossible(
            Node,
            "scheduler",
            SchedulerServiceStub,
            RegisterNodeRequest(name="nodes/a", incarnation="1", slots=1, devices=["cpu"]),
            "not heard of for 15 s",
        ),
        Impossible(
            Run,
            "pipeline",
            PipelineServiceStub,
            CreateRunRequest(name="runs/a", recipe=json.dumps(recipe)),
            "ingest: ",
        ),
    ]


def ask(world: Simulation, case: Impossible) -> None:
    role = Role.AGENT if isinstance(case.request, RegisterNodeRequest) else Role.SERVICE
    stub = case.stub(world.channel(case.service, role))
    call = type(case.request).__name__.removesuffix("Request")
    world.insist(lambda: getattr(stub, call)(case.request))


def reason(world: Simulation, case: Impossible) -> str:
    stub, kind = case.stub(world.channel(case.service, Role.SERVICE)), case.message.DESCRIPTOR.name
    name = case.request.name  # type: ignore[attr-defined]
    return str(world.insist(lambda: getattr(stub, f"Get{kind}")(GetRequest(name=name))).reason)


def test_every_kind_of_resource_says_why_its_owner_does_not_do_what_was_asked(tmp_path: Path) -> None:
    kinds = {event.message.DESCRIPTOR.name for event in every_event() if event.kind is Kind.STATE}
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.txt").write_text("a page that is gone before it is read")
    asked = cases(pages, tmp_path / "gone")
    assert {case.message.DESCRIPTOR.name for case in asked} | set(EXPLAINED) == kinds
    assert len(asked) + len(EXPLAINED) == len(kinds)
    with Simulation(0, builds=BUILDS, rates={}) as world:
        for case in asked:
            ask(world, case)
        shutil.rmtree(pages)
        for case in asked:
            world.run(until=lambda case=case: case.says in reason(world, case))  # type: ignore[misc]
