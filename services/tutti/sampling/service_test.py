"""What sampling refuses at the edge, and that prompts are told to nobody."""

from collections.abc import Iterator
from importlib import metadata
from typing import Any, cast

import pytest
from sqlalchemy import text

from tutti.backbone.connect import MissingExtra
from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound, Refused
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.sampling.v1 import (
    CreateExportRequest,
    CreateSampleRequest,
    ExportSpec,
    Format,
    PromptSet,
    ReadExportRequest,
    ReadSampleRequest,
    SampleSpec,
)
from tutti.contracts.sampling.v1.stubs import SamplingServiceStub
from tutti.sampling.service import build
from tutti.simulation import Simulation

CHECKPOINT = "checkpoints/gone/0/5"
QUESTION = "a-secret-question"
PROMPTS = PromptSet(conversations="conversations/a", manifest_key="k", content_digest=f"blake3:{'a' * 64}")


@pytest.fixture
def world() -> Iterator[Simulation]:
    with Simulation(0, builds={"sampling": build}) as simulation:
        yield simulation


@pytest.fixture
def stub(world: Simulation) -> SamplingServiceStub:
    return SamplingServiceStub(world.channel("sampling"))


def asked(**changes: Any) -> CreateSampleRequest:
    spec = {"checkpoint": CHECKPOINT, "prompts": [QUESTION], "tokens": 5, **changes}
    return CreateSampleRequest(request_id="r", name="samples/a", spec=SampleSpec(**spec))


def rows(unit: Unit) -> dict[str, str]:
    """Every value of every table of the service's database."""
    tables = unit.tx.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars().all()
    return {table: repr(unit.tx.execute(text(f'SELECT * FROM "{table}"')).all()) for table in tables}  # noqa: S608


def test_prompts_are_in_no_resource_and_no_event(world: Simulation, stub: SamplingServiceStub) -> None:
    for _ in range(2):
        made = world.insist(lambda: stub.CreateSample(asked()))
    assert list(made.sample.spec.prompts) == []
    assert made.sample.spec.tokens == 5
    told = world.peek("sampling", rows)
    assert [table for table, values in told.items() if QUESTION in values] == ["prompts"]
    assert "outbox" in [table for table, values in told.items() if "samples/a" in values]
    with pytest.raises(AlreadyExists):
        world.insist(lambda: stub.CreateSample(asked(prompts=["another"])))


def test_what_is_not_made_cannot_be_read(world: Simulation, stub: SamplingServiceStub) -> None:
    world.insist(lambda: stub.CreateSample(asked()))
    with pytest.raises(Refused, match="samples/a is") as caught:
        world.insist(lambda: stub.ReadSample(ReadSampleRequest(name="samples/a")))
    assert caught.value.reason == "NOT_DONE"
    with pytest.raises(NotFound):
        world.insist(lambda: stub.ReadExport(ReadExportRequest(name="exports/b", file="config.json")))


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("checkpoint", {"checkpoint": ""}),
        ("checkpoint", {"checkpoint": "jobs/a"}),
        ("prompts", {"prompts": []}),
        ("prompts", {"prompts": ["x"] * 65}),
        ("prompts", {"prompts": ["\u00e9" * 20_000, "\u00e9" * 20_000]}),
        ("tokens", {"tokens": 0}),
        ("tokens", {"tokens": 4097}),
        ("temperature", {"temperature": -1.0}),
        ("temperature", {"temperature": float("inf")}),
        ("top_p", {"top_p": 0.0}),
        ("seed", {"seed": 2**53}),
        ("logic_version", {"logic_version": "sampling-0"}),
        ("each", {"each": 2}),
        ("prompts", {"prompt_set": PROMPTS}),
        ("each", {"prompts": [], "prompt_set": PROMPTS, "each": 65}),
        ("prompt_set.manifest_key", {"prompts": [], "prompt_set": PromptSet(content_digest=PROMPTS.content_digest)}),
        ("prompt_set.content_digest", {"prompts": [], "prompt_set": PromptSet(manifest_key="k", content_digest="x")}),
    ],
)
def test_what_cannot_be_sampled_is_refused_by_field(
    world: Simulation, stub: SamplingServiceStub, field: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidField, match=rf"^spec\.{field}: expected"):
        world.insist(lambda: stub.CreateSample(asked(**changes)))
    with pytest.raises(NotFound):
        world.insist(lambda: stub.GetSample(GetRequest(name="samples/a")))


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("checkpoint", ExportSpec(checkpoint="nonsense", format=Format.FORMAT_HUGGING_FACE)),
        ("format", ExportSpec(checkpoint=CHECKPOINT)),
        ("format", ExportSpec(checkpoint=CHECKPOINT, format=cast(Format.ValueType, 9))),
        ("dtype", ExportSpec(checkpoint=CHECKPOINT, format=Format.FORMAT_HUGGING_FACE, dtype="int8")),
    ],
)
def test_what_cannot_be_exported_is_refused_by_field(
    world: Simulation, stub: SamplingServiceStub, field: str, spec: ExportSpec
) -> None:
    request = CreateExportRequest(name="exports/a", spec=spec)
    with pytest.raises(InvalidField, match=rf"^spec\.{field}: expected"):
        world.insist(lambda: stub.CreateExport(request))


def test_samples_of_another_engine_are_other_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.33.0" if name == "vllm" else version(name))
    versions = []
    for engine in ("slots", "vllm"):
        with Simulation(0, builds={"sampling": build}, settings={"sampling": {"engine": engine}}) as world:
            stub = SamplingServiceStub(world.channel("sampling"))
            versions.append(world.insist(lambda: stub.CreateSample(asked())).sample.spec.logic_version)  # noqa: B023
    assert versions == ["sampling-2", "sampling-2+vllm-0.33.0"]


def test_an_engine_that_is_not_installed_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def without(name: str) -> str:
        if name == "vllm":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without)
    with (
        pytest.raises(MissingExtra, match=r"pip install 'tutti\[vllm\]'"),
        Simulation(0, builds={"sampling": build}, settings={"sampling": {"engine": "vllm"}}),
    ):
        pass
