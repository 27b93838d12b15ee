"""A container of a pod as a command on this machine: the words, the environment and the files that a kubelet gives it.

Promises: variables are expanded as Kubernetes does. What is only there in a cluster is replaced by what stands for it
here: mount paths by folders, and addresses by those of local processes.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Manifest = dict[str, Any]
_VARIABLE = re.compile(r"\$(?:\$|\(([^()$]+)\))")
_LABEL = re.compile(r"metadata\.labels\['([^']+)'\]")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace $(NAME) by its value, and $$ by $; a name that is not known stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return variables.get(match[1], match[0])

    return _VARIABLE.sub(value, text)


def environment(pod: Manifest, container: Manifest, maps: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the variables of a container. `maps`: ConfigMaps by name.

    Raises ValueError for a source of variables that is not known here, KeyError for a ConfigMap or label that is
    missing.
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        if "configMapRef" not in source:
            raise ValueError(f"{container['name']}: envFrom {sorted(source)}: expected configMapRef")
        found |= maps[source["configMapRef"]["name"]]
    for each in container.get("env", []):
        if "valueFrom" in each:
            found[each["name"]] = _field(pod, each["valueFrom"])
        else:
            found[each["name"]] = expanded(each.get("value", ""), found)
    return found


def words(container: Manifest, variables: Mapping[str, str], entry_point: Sequence[str]) -> list[str]:
    """Return the command of a container; `entry_point` is that of its image."""
    command = container.get("command") or list(entry_point)
    return [expanded(word, variables) for word in (*command, *container.get("args", []))]


def here(text: str, places: Mapping[str, str]) -> str:
    """Replace each whole name of the cluster (a mount path, HOST:PORT, a host) in a text by what stands for it here."""
    if not places:
        return text
    names = "|".join(re.escape(name) for name in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?<![\w.:/-])(?:{names})(?![\w-]|\.\w)", lambda match: places[match[0]], text)


def mounts(pod: Manifest) -> dict[str, str]:
    """Return the volume of each mount path, of all containers of a pod."""
    spec = pod["spec"]
    every = (*spec["containers"], *spec.get("initContainers", []))
    return {mount["mountPath"]: mount["name"] for each in every for mount in each.get("volumeMounts", [])}


def _field(pod: Manifest, source: Manifest) -> str:
    path = source.get("fieldRef", {}).get("fieldPath", "")
    if path == "metadata.name":
        return str(pod["metadata"]["name"])
    if label := _LABEL.fullmatch(path):
        return str(pod["metadata"]["labels"][label[1]])
    raise ValueError(f"{source}: expected the name or a label of the pod")
