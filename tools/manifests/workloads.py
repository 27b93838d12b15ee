"""The workloads of services, front door and agents."""

from collections.abc import Mapping
from typing import Any

from tools.manifests.parts import (
    CONFINED,
    METRICS,
    NODE,
    PAGES,
    RPC,
    SHARED_MEMORY,
    TMP,
    Manifest,
    address,
    budget,
    claim,
    image,
    metadata,
    pod,
    probe,
    quantity,
    resolved,
    selector,
    settings_mount,
)

CHECK = ["keeper", "--check"]
STARTS = (
    180  # probes of a start, half an hour: the keeper ends a program that hangs, and gives it more time at each try
)
REPLICAS = 2  # of the agents
# The variable holds other arguments of `tutti`, such as those of a restore.
ARCHIVE = "exec tutti ${ARCHIVE:-backup /backups/$(date -u +%Y-%m-%dT%H-%M-%S)}"


def namespace() -> Manifest:
    """Pods that ask for more rights than ours are refused."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tutti", "labels": labels}}


def config() -> Manifest:
    """The environment that every part has in common; without a collector nothing is exported."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata("tutti"),
        "data": {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
    }


def service(name: str, part: Mapping[str, Any]) -> list[Manifest]:
    """A service or the front door: a Deployment, its name in the DNS, and how many may be away at a time."""
    component = "door" if name == "door" else "service"
    container = main_container(name, part)
    container["args"] = list(part["command"])
    container["ports"] = [{"name": "grpc", "containerPort": RPC}]
    if component == "service":
        container["ports"].append({"name": "metrics", "containerPort": METRICS})
    if "TUTTI_WEB__LISTEN" in part["environment"]:
        container["ports"].append({"name": "pages", "containerPort": PAGES})
    container["readinessProbe"] = probe([*CHECK, name])
    container["startupProbe"] = {**probe([*CHECK, name]), "failureThreshold": STARTS}
    volumes: list[Manifest] = [{"name": "data", "emptyDir": {}}]
    if any(str(volume).endswith(":/input:ro") for volume in part["volumes"]):
        container["volumeMounts"].append({"name": "input", "mountPath": "/input", "readOnly": True})
        volumes.append({"name": "input", "emptyDir": {}})
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, component),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": selector(name)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": pod(name, component, part, [container], volumes),
        },
    }
    return [deployment, address(name, component, container["ports"]), budget(name, component)]


def agents(part: Mapping[str, Any]) -> list[Manifest]:
    """Node agents. Pod `agent-N` is the node N, with a volume of its own and a name that other ranks reach."""
    name = "agent"
    container = main_container(name, part)
    container["args"] = [str(part["command"][0]), "--node", "$(POD_INDEX)"]
    container["ports"] = [{"name": "metrics", "containerPort": METRICS}]
    container["env"] = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        NODE,
        {"name": "TUTTI_TRAINER__ADDRESS", "value": f"$(POD_NAME).{name}"},
        *container["env"],
    ]
    # A probe's command sees no variables of the pod, so a shell expands this one.
    check = ["sh", "-c", " ".join([*CHECK, '"agent-$POD_INDEX"'])]
    container["readinessProbe"] = probe(check)
    container["startupProbe"] = {**probe(check), "failureThreshold": STARTS}
    container["volumeMounts"].append({"name": "shm", "mountPath": SHARED_MEMORY})
    shared = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": quantity(part["shm_size"])}}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(name, name),
        "spec": {
            "replicas": REPLICAS,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector(name)},
            "template": pod(name, name, part, [container], [shared]),
            "volumeClaimTemplates": [claim("data", "50Gi")],
        },
    }
    return [workload, address(name, name, container["ports"]), budget(name, name)]


def archive(part: Mapping[str, Any]) -> list[Manifest]:
    """Backups at 03:00 UTC into a claim, suspended until somebody wants them; a Job of it can restore one too."""
    name = "archive"
    container = main_container(name, part)
    container["command"] = ["sh", "-c", ARCHIVE]
    container["volumeMounts"].append({"name": "backups", "mountPath": "/backups"})
    volumes: list[Manifest] = [
        {"name": "data", "emptyDir": {}},
        {"name": "backups", "persistentVolumeClaim": {"claimName": "backups"}},
    ]
    job = {"backoffLimit": 4, "template": pod(name, name, part, [container], volumes, once=True)}
    cronjob = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata(name, name),
        "spec": {
            "schedule": "0 3 * * *",
            "timeZone": "Etc/UTC",
            "suspend": True,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": job},
        },
    }
    backups = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim("backups", "100Gi")}
    return [backups | {"metadata": metadata("backups")}, cronjob]


def main_container(name: str, part: Mapping[str, Any]) -> Manifest:
    memory = quantity(part["mem_limit"])
    environment = {key: resolved(str(value)) for key, value in part["environment"].items()}
    if name == "agent":
        environment["TUTTI_CONFIG"] = "/run/tutti/agent/tutti.toml"
    return {
        "name": name,
        "image": image(part),
        "envFrom": [{"configMapRef": {"name": "tutti"}}],
        "env": [{"name": key, "value": value} for key, value in environment.items() if not key.startswith("OTEL_")],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": memory}},
        "securityContext": CONFINED,
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/tutti"},
            {"name": "tmp", "mountPath": TMP},
            settings_mount(name),
        ],
    }
