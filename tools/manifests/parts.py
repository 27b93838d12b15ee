"""What the manifests have in common: names, pods with few rights, probes, addresses."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Manifest = dict[str, Any]
RPC, METRICS, PAGES = 7000, 9464, 8080
TMP, SHARED_MEMORY = "/tmp", "/dev/shm"  # noqa: S108
PART_OF = {"app.kubernetes.io/part-of": "tutti"}
CONFINED: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_DEFAULT = re.compile(r"\$\{\w+:-([^{}]*)\}")


def metadata(name: str, component: str | None = None) -> Manifest:
    labels = {"app.kubernetes.io/name": name, **PART_OF}
    if component is not None:
        labels["app.kubernetes.io/component"] = component
    return {"name": name, "labels": labels}


def selector(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, **PART_OF}


def pod(
    name: str,
    component: str,
    part: Mapping[str, Any],
    containers: Sequence[Manifest],
    volumes: Sequence[Manifest] = (),
    *,
    settings: Sequence[str] = (),
    once: bool = False,
) -> Manifest:
    """A pod with the user of `part`. `settings`: the Secrets it reads; that of its name, unless others are given."""
    user = int(str(part["user"]).partition(":")[0])
    secrets = settings or [name]
    context = {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    spec: Manifest = {
        # Kafka's image would read the variables of service links as its configuration.
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": context,
        "initContainers": [copied(secret) for secret in secrets],
        "containers": list(containers),
        "volumes": [
            *volumes,
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
            *(each for secret in secrets for each in settings_volumes(secret)),
        ],
    }
    if once:
        spec["restartPolicy"] = "OnFailure"
    return {"metadata": {"labels": metadata(name, component)["labels"]}, "spec": spec}


NODE: Manifest = {
    "name": "POD_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}},
}
# The Secret of the agents has the token and the key of each; a pod copies its own, and only this container sees others.
COPY_OF_NODE = """umask 077
cp "/secret/$POD_INDEX.toml" /settings/tutti.toml && cp "/secret/$POD_INDEX.tokens" /settings/tokens && exit
echo "no credentials for agent $POD_INDEX: run credentials.py --agents $((POD_INDEX + 1)) and apply its output" >&2
exit 1
"""


def copied(name: str) -> Manifest:
    """Copies a Secret to files of mode 0600: in a Secret's volume the group may read, which Tutti refuses."""
    of_node = name == "agent"
    return {
        "name": f"settings-{name}",
        "image": "tutti/control",
        "command": ["sh", "-c", COPY_OF_NODE if of_node else "umask 077 && cp /secret/* /settings/"],
        **({"env": [NODE]} if of_node else {}),
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": CONFINED,
        "volumeMounts": [
            {"name": f"secret-{name}", "mountPath": "/secret", "readOnly": True},
            {"name": f"settings-{name}", "mountPath": "/settings"},
        ],
    }


def settings_volumes(secret: str) -> list[Manifest]:
    return [
        {"name": f"secret-{secret}", "secret": {"secretName": f"tutti-{secret}", "defaultMode": 0o440}},
        {"name": f"settings-{secret}", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ]


def settings_mount(secret: str) -> Manifest:
    return {"name": f"settings-{secret}", "mountPath": f"/run/tutti/{secret}", "readOnly": True}


def probe(command: Sequence[str], *, seconds: int = 10) -> Manifest:
    return {"exec": {"command": list(command)}, "periodSeconds": seconds, "timeoutSeconds": 10, "failureThreshold": 3}


def address(name: str, component: str, ports: Sequence[Manifest]) -> Manifest:
    """Headless, so that a client sees each copy; also before a pod is ready, because an unhealthy service still answers
    `tutti doctor`."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, component),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(name),
            "ports": [{"name": port["name"], "port": port["containerPort"]} for port in ports],
        },
    }


def budget(name: str, component: str) -> Manifest:
    """One pod at a time is evicted."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name, component),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(name)}},
    }


def claim(name: str, size: str) -> Manifest:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }


def quantity(compose: str) -> str:
    """Compose's `512m` as Kubernetes' `512Mi`."""
    amount, unit = re.fullmatch(r"(\d+)([mg])", compose).groups()  # type: ignore[union-attr]
    return f"{amount}{unit.upper()}i"


def resolved(value: str) -> str:
    """A value of the compose file with the defaults of its variables, also of one within another."""
    while (inner := _DEFAULT.sub(r"\1", value)) != value:
        value = inner
    return value


def image(part: Mapping[str, Any]) -> str:
    """`tutti/control`, `tutti/compute`, or a public image with its version."""
    name = resolved(str(part["image"]))
    return f"tutti/{name.split('/')[1].split(':')[0]}" if name.startswith("tutti/") else name
