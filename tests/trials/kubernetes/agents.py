"""The pods of the StatefulSet `agent` as processes: the entry point of the image with the real program of the agent.

Command, variables, probe and init container are those of the pod; Secret, ConfigMap and volume are read from the API
server by the pod's node. Stand-ins: folders for mount paths, and loopback addresses for names of the cluster. User,
limits and isolation of a container are not those of the pod.
"""

import base64
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.trials.docker.engine import command
from tests.trials.kubernetes.api import Api, Manifest
from tests.trials.kubernetes.containers import Container, Running
from tests.trials.kubernetes.pods import environment, here, mounts, words

NAME = "app.kubernetes.io/name"
SHARED_MEMORY = "/dev/shm"  # noqa: S108
IMAGE = {"HOME": "/tmp", "USER": "tutti", "MALLOC_ARENA_MAX": "2", "TUTTI_DATA_DIR": "/var/lib/tutti/data"}  # noqa: S108
"""The variables of the image (deploy/docker/Dockerfile)."""
INIT_SECONDS = 60.0


class Agents:
    """Makes the container of a pod, if it is one of an agent."""

    def __init__(self, folder: Path, entry_point: Path, addresses: Mapping[str, str]) -> None:
        """`entry_point`: that of the image; `addresses`: by name in the cluster, such as scheduler:7000."""
        self._folder, self._entry_point, self._addresses = folder, entry_point, addresses

    def __call__(self, api: Api, pod: Manifest) -> Container | None:
        """Raises ApiError, TrialError, ValueError."""
        about, spec = pod["metadata"], pod["spec"]
        if about["labels"].get(NAME) != "agent":
            return None
        home = self._folder / about["uid"]
        shutil.rmtree(home, ignore_errors=True)
        base = f"/api/v1/namespaces/{about['namespace']}"
        volumes = {each["name"]: each for each in spec["volumes"]}
        folders = {name: self._volume(api, base, home, each) for name, each in volumes.items()}
        places = dict(self._addresses)
        places |= {path: str(folders[name]) for path, name in mounts(pod).items() if path != SHARED_MEMORY}
        for name, volume in volumes.items():
            if "secret" in volume:
                _write(folders[name], api.get(f"{base}/secrets/{volume['secret']['secretName']}"), places)
        for each in spec["initContainers"]:
            variables = self._variables(api, base, pod, each, places)
            line = [here(word, places) for word in words(each, variables, [])]
            command(line, seconds=INIT_SECONDS, environment=variables)
        (container,) = spec["containers"]
        variables = self._variables(api, base, pod, container, places)
        return Running(
            [here(word, places) for word in words(container, variables, [str(self._entry_point)])],
            variables,
            _probe(container, places),
            self._folder / f"{about['name']}.log",
            self._folder / f"{about['name']}-{about['uid']}.pid.json",
        )

    def _volume(self, api: Api, base: str, home: Path, volume: Manifest) -> Path:
        """Return the folder that stands for a volume: an empty one of the pod, or that of a claim, which stays."""
        if "persistentVolumeClaim" in volume:
            claim = api.get(f"{base}/persistentvolumeclaims/{volume['persistentVolumeClaim']['claimName']}")
            bound = api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
            return Path(bound["spec"]["hostPath"]["path"])
        folder = home / str(volume["name"])
        folder.mkdir(parents=True)
        return folder

    def _variables(
        self, api: Api, base: str, pod: Manifest, container: Manifest, places: Mapping[str, str]
    ) -> dict[str, str]:
        names = [each["configMapRef"]["name"] for each in container.get("envFrom", [])]
        maps = {name: api.get(f"{base}/configmaps/{name}").get("data") or {} for name in names}
        found = {**IMAGE, **environment(pod, container, maps)}
        path = f"{self._entry_point.parent}:{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        return {name: here(value, places) for name, value in found.items()} | {"PATH": path}


def _write(folder: Path, secret: Manifest, places: Mapping[str, str]) -> None:
    for name, encoded in secret["data"].items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(here(base64.b64decode(encoded).decode(), places))


def _probe(container: Manifest, places: Mapping[str, str]) -> Sequence[str]:
    return [here(word, places) for word in container["readinessProbe"]["exec"]["command"]]
