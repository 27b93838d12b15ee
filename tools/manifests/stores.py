"""Kafka, Postgres and S3 with one replica each, in the cluster, and the Job that makes the roles in Postgres."""

from collections.abc import Mapping
from typing import Any

from tools.manifests.parts import (
    CONFINED,
    SHARED_MEMORY,
    TMP,
    Manifest,
    address,
    claim,
    image,
    metadata,
    pod,
    quantity,
    selector,
    settings_mount,
)

PROVISION = "/opt/provision.py"
# The folder of each image's data, and the variable that names the folder in it where the server keeps them: a claim may
# hold lost+found. The claim must be mounted at a volume that an image declares: containerd puts an empty folder of the
# container's own there, which would cover the claim if it was mounted above it.
DATA = {
    "kafka": ("/var/lib/kafka/data", {"KAFKA_LOG_DIRS": "data"}),
    "postgres": ("/var/lib/postgresql/data", {"PGDATA": "pgdata"}),
    "s3": ("/data", {}),
}
# Topics, users and rights again and again: a broker that lost its data does not get them back otherwise.
TOPICS = f"""trap 'exit 0' TERM
while true; do
  if python {PROVISION} topics /run/tutti localhost:9094; then pause=300; else pause=5; fi
  sleep $pause & wait
done
"""


def stores(parts: Mapping[str, Any]) -> list[Manifest]:
    return [
        *_store("kafka", parts, 9092, [kafka_topics(parts["topics"])], settings=["topics"]),
        *_store("postgres", parts, 5432),
        *_store("s3", parts, 7070),
        roles_job(parts["roles"]),
    ]


def roles_job(part: Mapping[str, Any]) -> Manifest:
    """Every role in Postgres and the rights to blobs; apply it again after an upgrade that brings a service."""
    container = {
        "name": "roles",
        "image": image(part),
        "command": ["python", PROVISION, "roles", "/run/tutti"],
        "resources": _resources(part),
        "securityContext": CONFINED,
        "volumeMounts": [settings_mount("roles"), {"name": "tmp", "mountPath": TMP}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata("roles", "init"),
        "spec": {
            "backoffLimit": 20,
            "ttlSecondsAfterFinished": 600,
            "template": pod("roles", "init", part, [container], once=True),
        },
    }


def kafka_topics(part: Mapping[str, Any]) -> Manifest:
    """Beside the broker, where it needs no password."""
    return {
        "name": "topics",
        "image": image(part),
        "command": ["sh", "-c", TOPICS],
        "resources": _resources(part),
        "securityContext": CONFINED,
        "volumeMounts": [settings_mount("topics"), {"name": "tmp", "mountPath": TMP}],
    }


def _store(
    name: str,
    parts: Mapping[str, Any],
    port: int,
    beside: list[Manifest] | None = None,
    *,
    settings: list[str] | None = None,
) -> list[Manifest]:
    part = parts[name]
    environment = {key: str(value) for key, value in part.get("environment", {}).items()}
    data, inside = DATA[name]
    environment |= {variable: f"{data}/{folder}" for variable, folder in inside.items()}
    container: Manifest = {
        "name": name,
        "image": image(part),
        "env": [{"name": key, "value": _unescaped(value)} for key, value in environment.items()],
        "ports": [{"name": name, "containerPort": port}],
        "resources": _resources(part),
        "securityContext": CONFINED,
        "readinessProbe": {
            "exec": {"command": [_unescaped(word) for word in part["healthcheck"]["test"][1:]]},
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 3,
        },
        "volumeMounts": [{"name": "data", "mountPath": data}],
    }
    if name != "kafka":
        container["volumeMounts"].append(settings_mount(name))
    if "entrypoint" in part:
        container["command"] = [_unescaped(word) for word in part["entrypoint"]]
    elif "command" in part:
        container["args"] = list(part["command"])
    scratch = []
    for index, line in enumerate(part["tmpfs"]):
        path, options = str(line).split(":")
        size = dict(each.split("=") for each in options.split(","))["size"]
        volume = "tmp" if path == TMP else f"scratch-{index}"
        container["volumeMounts"].append({"name": volume, "mountPath": path})
        if volume != "tmp":
            scratch.append({"name": volume, "emptyDir": {"medium": "Memory", "sizeLimit": quantity(size)}})
    if "shm_size" in part:
        container["volumeMounts"].append({"name": "shm", "mountPath": SHARED_MEMORY})
        scratch.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": quantity(part["shm_size"])}})
    workload = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(name, "store"),
        "spec": {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": selector(name)},
            "template": pod(name, "store", part, [container, *(beside or [])], scratch, settings=settings or ()),
            "volumeClaimTemplates": [claim("data", "20Gi")],
        },
    }
    return [workload, address(name, "store", container["ports"])]


def _unescaped(word: str) -> str:
    """Compose writes `$` as `$$`; Kubernetes leaves `$(...)` alone where no variable has that name."""
    return word.replace("$$", "$")


def _resources(part: Mapping[str, Any]) -> Manifest:
    return {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": quantity(part["mem_limit"])},
    }
