"""The collector and Jaeger: the programs themselves, where they were built, read what their containers read."""

from pathlib import Path

import pytest
import yaml
from tools.manifests.parts import resolved

from tests.e2e.command import ROOT
from tests.scale import SOAK
from tests.stack.conftest import program
from tests.trials import traces

MISSING = 3  # the exit code of traces.py


def test_the_collector_is_built_with_the_components_of_its_configuration(tmp_path: Path) -> None:
    collector, jaeger = traces.programs()
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    images = {resolved(each["image"]) for each in services.values()}
    assert {
        f"otel/opentelemetry-collector:{collector.version}",
        f"jaegertracing/jaeger:{jaeger.version}",
    } <= images
    made = traces.manifest_of(collector, tmp_path)
    kinds = ("receivers", "processors", "exporters")
    modules = {each["gomod"].rpartition("/")[2] for kind in kinds for each in made[kind]}
    names = ("otlpreceiver", "memorylimiterprocessor", "batchprocessor", "otlpexporter")
    assert modules == {f"{name} v{collector.version}" for name in names}


def test_the_collector_and_jaeger_accept_the_configuration_of_their_containers() -> None:
    checked = program("-m", "tests.trials.traces", "check")
    if checked.code == MISSING:
        pytest.skip(checked.err.strip())
    assert checked.code == 0, checked.err
    assert [line.partition(" accepts ")[2] for line in checked.out.splitlines()] == [
        "deploy/docker/collector/collector.yml",
        "deploy/docker/jaeger/jaeger.yml",
    ]


@pytest.mark.timeout(900)
@pytest.mark.skipif(not SOAK, reason="four runs; CAMPAIGN_SCALE=soak makes them")
def test_a_run_is_one_trace_in_jaeger_and_ends_alike_while_the_collector_is_stopped_or_dead(
    pages: Path, tmp_path: Path
) -> None:
    tried = program("-m", "tests.trials.traces", "try", pages, "--dir", tmp_path / "traces", seconds=840)
    if tried.code == MISSING:
        pytest.skip(tried.err.strip())
    assert tried.code == 0, tried.err
    assert "trace " in tried.err
    assert [line.split()[0] for line in tried.out.splitlines()[1:]] == ["none", "up", "stopped", "killed"]
