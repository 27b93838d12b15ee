"""What dedup refuses at the edge."""

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.dedup.v1 import CreateDedupRequest, DedupSpec
from tutti.contracts.dedup.v1.stubs import DedupServiceStub
from tutti.dedup.onray import lacking
from tutti.dedup.service import build
from tutti.dedup.settings import DedupSettings
from tutti.simulation import Simulation

LINES = {"unit": "line", "most": 6, "least_characters": 1, "left": 1}
CLUSTER = DedupSettings(ray="127.0.0.1:6379", ray_blobs="file:///shared")


@pytest.fixture
def world() -> Iterator[Simulation]:
    with Simulation(0, builds={"dedup": build}) as simulation:
        yield simulation


def asked(**changes: Any) -> CreateDedupRequest:
    spec = {"manifest_key": "ingest/manifests/x.json", "content_digest": "blake3:x", **changes}
    return CreateDedupRequest(request_id="r", name="dedups/a", spec=DedupSpec(**spec), validate_only=True)


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({"near": 1.5}, "spec.near", "0 for none, or a similarity from 0.7 to 1"),
        ({"near": 0.69}, "spec.near", "of what is less alike, too few are found"),
        ({"clean": "c5"}, "spec.clean", "c4, or nothing"),
        ({"lines": {}}, "spec.lines.unit", "line, paragraph"),
        ({"lines": {**LINES, "most": 0}}, "spec.lines.most", "at least 1"),
        ({"lines": {**LINES, "keep": 7}}, "spec.lines.keep", r"at most spec\.lines\.most \(6\)"),
        ({"engine": "spark"}, "spec.engine", "local or ray"),
        ({"engine": "ray"}, "spec.engine", r"local, since no cluster is known.*set dedup\.ray and dedup\.ray_blobs"),
    ],
)
def test_what_cannot_be_done_is_refused_by_field(
    world: Simulation, changes: dict[str, Any], field: str, expected: str
) -> None:
    stub = DedupServiceStub(world.channel("dedup"))
    world.insist(lambda: stub.CreateDedup(asked()))
    with pytest.raises(InvalidField, match=rf"(?s){field}.*{expected}"):
        world.insist(lambda: stub.CreateDedup(asked(**changes)))


def test_a_cluster_needs_a_place_and_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lacking(CLUSTER) == ""
    assert "dedup.ray_blobs" in lacking(DedupSettings(ray=CLUSTER.ray))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert lacking(CLUSTER) == "daft is not installed where dedup runs: pip install 'tutti[cluster]'"
