"""The stand-in for a kubelet, without a cluster: what it makes of the pods that the manifests give."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.trials.kubernetes.gomodule import MODULE, rewritten
from tests.trials.kubernetes.pods import environment, expanded, here, mounts, words

AGENTS = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "base" / "agents.yaml"
GO_MOD = f"""module {MODULE}

go 1.24.0

require (
	github.com/spf13/cobra v1.9.1
	k8s.io/api v0.0.0
	k8s.io/gengo/v2 v2.0.0-20250604051438-85fd79dbfd9f
	k8s.io/kubectl v0.0.0 // indirect
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubectl => ./staging/src/k8s.io/kubectl
)

replace k8s.io/mount-utils => ./staging/src/k8s.io/mount-utils
"""


@pytest.fixture(scope="module")
def pod() -> dict[str, Any]:
    """The second pod of the StatefulSet, with the name and the label that its controller adds."""
    workload = next(yaml.safe_load_all(AGENTS.read_text()))
    assert workload["kind"] == "StatefulSet"
    template: dict[str, Any] = workload["spec"]["template"]
    labels = {**template["metadata"]["labels"], "apps.kubernetes.io/pod-index": "1"}
    return {**template, "metadata": {"name": "agent-1", "labels": labels}}


def test_a_pod_of_the_agents_runs_the_agent_of_its_own_node(pod: dict[str, Any]) -> None:
    (container,) = pod["spec"]["containers"]
    variables = environment(pod, container, {"tutti": {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}})
    assert variables["POD_INDEX"] == "1"
    assert variables["TUTTI_TRAINER__ADDRESS"] == "agent-1.agent"
    assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"] == ""
    assert words(container, variables, ["keeper"]) == ["keeper", "tutti.trainer", "--node", "1"]


def test_a_missing_config_map_is_an_error(pod: dict[str, Any]) -> None:
    with pytest.raises(KeyError, match="tutti"):
        environment(pod, pod["spec"]["containers"][0], {})


def test_variables_are_expanded_as_kubernetes_does() -> None:
    known = {"A": "1"}
    assert expanded("$(A) $(B) $A $$(A) $((A + 1))", known) == "1 $(B) $A $(A) $((A + 1))"


def test_names_of_the_cluster_are_replaced_by_what_stands_for_them_and_others_stay(pod: dict[str, Any]) -> None:
    paths = {path: f"/here/{volume}" for path, volume in mounts(pod).items()}
    places = {**paths, "scheduler:7000": "127.0.0.1:1", "s3:7070": "127.0.0.1:2", "agent-1.agent": "127.0.0.1"}
    others = "agent-10.agent agent-1.agent.tutti /opt/tmp /tmpfs"
    assert here(others, places) == others
    assert here("agent-1.agent", places) == "127.0.0.1"
    assert here('url = "s3://trainer:key@s3:7070/tutti"', places) == 'url = "s3://trainer:key@127.0.0.1:2/tutti"'
    assert here('scheduler = "scheduler:7000"', places) == 'scheduler = "127.0.0.1:1"'
    assert here("/run/tutti/agent/tokens", places) == "/here/settings-agent/tokens"
    assert here("cp /secret/tutti.toml /settings/", places) == "cp /here/secret-agent/tutti.toml /here/settings-agent/"


def test_kubernetes_is_built_from_published_modules_alone() -> None:
    made = rewritten(GO_MOD, "v1.34.2")
    assert "staging" not in made
    assert f"module {MODULE}\n" not in made
    assert f"require {MODULE} v1.34.2\n" in made
    replaced = [line for line in made.splitlines() if line.startswith("replace")]
    assert replaced == [f"replace k8s.io/{name} => k8s.io/{name} v0.34.2" for name in ("api", "kubectl")]
