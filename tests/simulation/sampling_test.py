"""Sampling beside who owns checkpoints and tokenizers, in a world that crashes, repeats and reorders by seed."""

from collections.abc import Iterator

import pytest

from tutti.chassis.errors import Refused
from tutti.committer.service import build as build_committer
from tutti.contracts.common.v1 import STATE_FAILED, GetRequest, ListRequest
from tutti.contracts.sampling.v1 import (
    FORMAT_HUGGING_FACE,
    CreateExportRequest,
    CreateSampleRequest,
    Export,
    ExportSpec,
    ReadExportRequest,
    ReadSampleRequest,
    Sample,
    SampleSpec,
)
from tutti.contracts.sampling.v1.stubs import SamplingServiceStub
from tutti.sampling.service import build
from tutti.simulation import Simulation
from tutti.tokenization.service import build as build_tokenization

CHECKPOINT = "checkpoints/gone/0/5"
BUILDS = {"sampling": build, "committer": build_committer, "tokenization": build_tokenization}


@pytest.fixture(params=range(3))
def world(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    with Simulation(request.param, builds=BUILDS) as simulation:
        yield simulation


@pytest.fixture
def stub(world: Simulation) -> SamplingServiceStub:
    return SamplingServiceStub(world.channel("sampling"))


def test_a_sample_of_what_is_not_there_fails_with_its_name(world: Simulation, stub: SamplingServiceStub) -> None:
    spec = SampleSpec(checkpoint=CHECKPOINT, prompts=["x"], tokens=5)
    request = CreateSampleRequest(request_id="r", name="samples/a", spec=spec)
    for _ in range(2):
        world.insist(lambda: stub.CreateSample(request))
    world.settle()
    failed = world.insist(lambda: stub.GetSample(GetRequest(name="samples/a")))
    assert (failed.state, failed.reason) == (STATE_FAILED, f"{CHECKPOINT} does not exist")
    assert list(world.insist(lambda: stub.ListSamples(ListRequest())).samples) == [failed]
    with pytest.raises(Refused, match=f"samples/a is failed: {CHECKPOINT} does not exist"):
        world.insist(lambda: stub.ReadSample(ReadSampleRequest(name="samples/a")))
    world.examine()
    assert world.events[Sample.DESCRIPTOR.full_name] == 3


def test_an_export_of_what_is_not_there_fails_with_its_name(world: Simulation, stub: SamplingServiceStub) -> None:
    spec = ExportSpec(checkpoint=CHECKPOINT, format=FORMAT_HUGGING_FACE)
    world.insist(lambda: stub.CreateExport(CreateExportRequest(request_id="r", name="exports/a", spec=spec)))
    world.settle()
    failed = world.insist(lambda: stub.GetExport(GetRequest(name="exports/a")))
    assert (failed.state, failed.reason) == (STATE_FAILED, f"{CHECKPOINT} does not exist")
    with pytest.raises(Refused, match="exports/a is failed"):
        world.insist(lambda: stub.ReadExport(ReadExportRequest(name="exports/a", file="config.json")))
    world.examine()
    assert world.events[Export.DESCRIPTOR.full_name] == 3
