"""A stand-in for the kubelets of a cluster, and for its provisioner of volumes.

It registers nodes, renews their leases, and reports each pod that the scheduler binds as running and ready. Jobs
succeed at once. It runs no container by itself: `maker` decides which pods have a program here.

Promises: each node is a user of its own, whom the API server lets read only what its pods name; a pod that was removed
from the API is killed before its successor starts; a pod that is deleted is stopped within its grace period, and then
removed.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.trials.docker.engine import TrialError, tell
from tests.trials.kubernetes.api import Api, ApiError, Manifest
from tests.trials.kubernetes.cluster import Cluster, wait
from tests.trials.kubernetes.containers import Container, Simulated

LOOK_SECONDS = 0.5
LEASE_SECONDS, RENEW_SECONDS = 40, 10.0
REGISTER_SECONDS = 180.0
STOP_SECONDS = 30.0
GONE = (404, 409)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
VOLUMES = "/api/v1/persistentvolumes"
PROVISIONER = "tutti.dev/trial"
ROOM = {"cpu": "32", "memory": "64Gi", "ephemeral-storage": "200Gi", "pods": "110"}
Maker = Callable[[Api, Manifest], Container | None]


@dataclass(frozen=True)
class Event:
    """`what` happened to a pod of a node: started, ready, stopped or killed."""

    what: str
    pod: str
    node: str


@dataclass
class _Pod:
    name: str
    namespace: str
    container: Container
    address: str
    started: str
    told: Manifest | None = None
    """the status that the API server has"""


@dataclass
class _Node:
    name: str
    address: str
    api: Api
    pods: dict[str, _Pod] = field(default_factory=dict)
    """by uid"""
    renewed: float = 0.0


class Kubelets:
    """The nodes, in a thread of their own. `events` is what happened to pods, in its order."""

    def __init__(self, cluster: Cluster, names: Sequence[str], volumes: Path) -> None:
        self._admin, self._volumes = cluster.admin, volumes
        self._nodes = [
            _Node(name, f"10.0.0.{number}", cluster.api(f"system:node:{name}", group="system:nodes"))
            for number, name in enumerate(names, 1)
        ]
        self._over, self._turning = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="kubelets", daemon=True)
        self._addresses = 0
        self._trouble = ""
        self.events: list[Event] = []
        self.maker: Maker = lambda api, pod: None

    def start(self) -> None:
        """Register the nodes, and begin. Raises TrialError."""
        self._admin.create("/apis/storage.k8s.io/v1/storageclasses", _storage_class())
        for node in self._nodes:
            node.api.create("/api/v1/nodes", _node(node))
        self._thread.start()

        def unready() -> list[str]:
            return [each["metadata"]["name"] for each in self._admin.listed("/api/v1/nodes") if not _is_ready(each)]

        wait(lambda: not unready(), REGISTER_SECONDS, lambda: f"{', '.join(unready())} to be ready; {self._trouble}")

    def stop(self) -> None:
        """Stop all programs of pods."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        containers = [pod.container for node in self._nodes for pod in node.pods.values()]
        deadline = time.monotonic() + STOP_SECONDS
        while containers and time.monotonic() < deadline:
            containers = [each for each in containers if not each.stop(STOP_SECONDS / 2)]
            time.sleep(LOOK_SECONDS)
        for each in containers:
            each.kill()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing starts, stops or becomes ready meanwhile."""
        with self._turning:
            yield

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            with self._turning:
                self._provide()
                seen = [(node, self._bound(node)) for node in self._nodes]
                for node, pods in seen:
                    if pods is not None:
                        self._bury(node, pods)
                for node, pods in seen:
                    self._attempt(partial(self._renew, node))
                    for pod in pods or []:
                        self._attempt(partial(self._sync, node, pod))

    def _attempt(self, action: Callable[[], None]) -> None:
        """What fails is attempted again in the next turn; what is gone needs nothing more."""
        try:
            action()
        except ApiError as error:
            if error.code not in GONE and str(error) != self._trouble:
                self._trouble = str(error)
                tell(f"stand-in for the kubelets, tried again: {error}")
        except (TrialError, OSError, KeyError, ValueError) as error:
            if repr(error) != self._trouble:
                self._trouble = repr(error)
                tell(f"stand-in for the kubelets, tried again: {error!r}")

    def _bound(self, node: _Node) -> list[Manifest] | None:
        """Return the pods of a node, None if nobody answers."""
        found: list[Manifest] | None = None

        def look() -> None:
            nonlocal found
            found = node.api.listed(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node.name}")

        self._attempt(look)
        return found

    def _renew(self, node: _Node) -> None:
        if time.monotonic() - node.renewed < RENEW_SECONDS:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": node.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
        if node.renewed:
            node.api.merge(f"{LEASES}/{node.name}", {"spec": spec})
        else:
            node.api.create(LEASES, {"metadata": {"name": node.name}, "spec": spec})
        node.renewed = time.monotonic()

    def _provide(self) -> None:
        """Make a volume, a folder here, for each claim that waits for one."""

        def provide() -> None:
            for claim in self._admin.listed("/api/v1/persistentvolumeclaims"):
                if claim.get("status", {}).get("phase") == "Pending" and not claim["spec"].get("volumeName"):
                    self._attempt(partial(self._make_volume, claim))

        self._attempt(provide)

    def _make_volume(self, claim: Manifest) -> None:
        about, spec = claim["metadata"], claim["spec"]
        folder = self._volumes / about["uid"]
        folder.mkdir(parents=True, exist_ok=True)
        volume = {
            "metadata": {"name": f"volume-{about['uid']}"},
            "spec": {
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "storageClassName": spec["storageClassName"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder)},
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    **{key: about[key] for key in ("namespace", "name", "uid")},
                },
            },
        }
        self._admin.create(VOLUMES, volume)

    def _bury(self, node: _Node, pods: Sequence[Manifest]) -> None:
        """Kill what runs for pods that are no longer in the API."""
        present = {pod["metadata"]["uid"] for pod in pods}
        for uid in set(node.pods) - present:
            gone = node.pods.pop(uid)
            gone.container.kill()
            self._note("killed", gone, node)

    def _sync(self, node: _Node, pod: Manifest) -> None:
        about = pod["metadata"]
        known = node.pods.get(about["uid"])
        if "deletionTimestamp" in about:
            if known is None or known.container.stop(float(about.get("deletionGracePeriodSeconds") or 0)):
                self._remove(node, pod)
            return
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return
        if known is None:
            container = self.maker(node.api, pod) or Simulated()
            self._addresses += 1
            address = f"10.244.{self._addresses // 250}.{self._addresses % 250 + 1}"
            known = node.pods[about["uid"]] = _Pod(about["name"], about["namespace"], container, address, _now())
            self._note("started", known, node)
        ready, once = known.container.look(), "batch.kubernetes.io/job-name" in about["labels"]
        self._tell(node, pod, known, _status(pod, known, node, ready=ready, once=once))

    def _tell(self, node: _Node, pod: Manifest, known: _Pod, status: Manifest) -> None:
        essence = {key: status[key] for key in ("phase", "containerStatuses")}
        if essence == known.told:
            return
        # Conditions that others wrote, such as that of the scheduler, are kept.
        kinds = {each["type"] for each in status["conditions"]}
        others = [each for each in pod.get("status", {}).get("conditions", []) if each["type"] not in kinds]
        node.api.merge(f"{_path(pod)}/status", {"status": {**status, "conditions": [*others, *status["conditions"]]}})
        was_ready = known.told is not None and known.told["containerStatuses"][0]["ready"]
        known.told = essence
        if essence["containerStatuses"][0]["ready"] and not was_ready:
            self._note("ready", known, node)

    def _remove(self, node: _Node, pod: Manifest) -> None:
        about = pod["metadata"]
        node.api.call("DELETE", _path(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": about["uid"]}})
        if (gone := node.pods.pop(about["uid"], None)) is not None:
            self._note("stopped", gone, node)

    def _note(self, what: str, pod: _Pod, node: _Node) -> None:
        self.events.append(Event(what, pod.name, node.name))


@contextmanager
def serving(cluster: Cluster, names: Sequence[str], volumes: Path) -> Iterator[Kubelets]:
    """Yield the kubelets of nodes of these names; all their programs are stopped at the end. Raises TrialError."""
    kubelets = Kubelets(cluster, names, volumes)
    try:
        kubelets.start()
        yield kubelets
    finally:
        kubelets.stop()


def _status(pod: Manifest, known: _Pod, node: _Node, *, ready: bool, once: bool) -> Manifest:
    """Return the status of a pod; one that runs `once` has succeeded."""
    now = _now()
    ready = ready and not once
    state: Manifest = (
        {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": known.started, "finishedAt": known.started}}
        if once
        else {"running": {"startedAt": known.started}}
    )
    truth = {"PodReadyToStartContainers": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    return {
        "phase": "Succeeded" if once else "Running",
        "startTime": known.started,
        "hostIP": node.address,
        "podIP": known.address,
        "podIPs": [{"ip": known.address}],
        "conditions": [
            {"type": kind, "status": str(value), "lastTransitionTime": now} for kind, value in truth.items()
        ],
        "containerStatuses": [
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": "",
                "ready": ready,
                "started": ready,
                "restartCount": known.container.restarts,
                "state": state,
            }
            for each in pod["spec"]["containers"]
        ],
    }


def _node(node: _Node) -> Manifest:
    now = _now()
    pressures = [{"type": f"{kind}Pressure", "status": "False"} for kind in ("Memory", "Disk", "PID")]
    conditions = [*pressures, {"type": "Ready", "status": "True"}]
    about = {"reason": "StandIn", "message": "no kubelet", "lastHeartbeatTime": now, "lastTransitionTime": now}
    labels = {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux"}
    return {
        "metadata": {"name": node.name, "labels": labels},
        "status": {
            "capacity": ROOM,
            "allocatable": ROOM,
            "addresses": [{"type": "InternalIP", "address": node.address}, {"type": "Hostname", "address": node.name}],
            "conditions": [{**each, **about} for each in conditions],
        },
    }


def _storage_class() -> Manifest:
    return {
        "metadata": {"name": "trial", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "Immediate",
    }


def _is_ready(node: Manifest) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node.get("spec", {}).get("taints")


def _path(pod: Manifest) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
