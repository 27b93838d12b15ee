"""A training over the agents of a StatefulSet, whose pods die and are replaced: it goes on from the last decision.

Real: the API server with its controllers and scheduler, the pods that they make and bind, the agents with their ranks,
and the services on Kafka, Postgres and S3 (deploy/local). Stand-ins: the kubelets, and addresses of the cluster. The
services run beside the cluster, with the tokens and the key to the blob store of the cluster's Secrets.
"""

import contextlib
import json
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from accounts import keys
from processes import write_secret
from servers import ROOT, Stack

from tests.trials.docker.engine import TrialError, command
from tests.trials.kubernetes.agents import Agents
from tests.trials.kubernetes.builds import NoCluster
from tests.trials.kubernetes.cluster import NAMESPACE, Cluster, wait
from tests.trials.kubernetes.kubelet import Kubelets
from tutti.backbone.s3.users import agent
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.settings import installed_services
from tutti.chassis.errors import Problem
from tutti.client import Client, connect
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_DECIDED,
    CHECKPOINT_STATE_PRUNED,
    Checkpoint,
)
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.scheduler.v1 import JOB_STATE_DONE, JOB_STATE_RUNNING, JOB_STATE_STARTING, NODE_STATE_READY, Job

TUTTI = str(Path(sys.executable).with_name("tutti"))
LOCAL = ROOT / "deploy" / "local"
RECIPE = ROOT / "recipes" / "tiny.yaml"
EVERY = 50
"""steps between checkpoints"""
LEAST = 2 * EVERY
"""the step that is committed before the pod dies"""
NODES = ["nodes/0", "nodes/1"]
VICTIM, VICTIM_NODE = "agent-1", "nodes/1"
LEAST_ATTEMPTS = 3
DECIDED = (CHECKPOINT_STATE_DECIDED, CHECKPOINT_STATE_COMMITTED, CHECKPOINT_STATE_PRUNED)
LOOK_SECONDS = 0.1
UP_SECONDS, PAGES_SECONDS, READY_SECONDS, RUN_SECONDS = 900.0, 600.0, 600.0, 1800.0
# One rank on each node, so that the gang needs both agents.
SLOTS = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--slots=1"}]


def restart(cluster: Cluster, kubelets: Kubelets, folder: Path, *, steps: int) -> None:
    """Train, kill a pod, and compare with a training that nobody disturbed. `folder` has the Secrets of the cluster.

    Raises TrialError, NoCluster, ServerError.
    """
    exhibit = command([sys.executable, ROOT / "tools/exhibit.py"], seconds=PAGES_SECONDS, folder=ROOT)
    data_dir, sets = folder / "stack", _sets(Path(exhibit.split()[-1]), steps)
    entry_point = _entry_point(folder)
    with _stack(data_dir, folder / "secrets") as addresses:
        kubelets.maker = Agents(folder / "pods", entry_point, addresses)
        cluster.kubectl("-n", NAMESPACE, "patch", "statefulset/agent", "--type", "json", "-p", json.dumps(SLOTS))
        _roll_out(cluster)
        with connect(data_dir) as client:
            wait(lambda: sorted(_agents(client)) == NODES, READY_SECONDS, lambda: f"the nodes {NODES}")
            run = command([TUTTI, "run", RECIPE, "--data-dir", data_dir, "--detach", *sets], seconds=120).strip()
            attempts = _Attempts(client, run)
            attempts.start()
            try:
                _disturb(cluster, client, run)
                follow = [TUTTI, "runs", "follow", run, "--data-dir", str(data_dir), "-o", "json"]
                found = _digests(command(follow, seconds=RUN_SECONDS))
            finally:
                attempts.stop()
            _require_resumed(client, run, attempts.resumed)
        cluster.kubectl("-n", NAMESPACE, "scale", "statefulset/agent", "--replicas", "0")
        wait(lambda: not cluster.pods("agent"), READY_SECONDS, lambda: "the end of the agents")
    expected = _undisturbed(folder / "embedded", sets)
    if found != expected:
        raise TrialError(f"the states differ from those of an undisturbed run: {found}, expected {expected}")
    print(f"state digests of {len(found)} checkpoints are those of an undisturbed run; the last: {found[max(found)]}")


class _Attempts(threading.Thread):
    """Observes a run; `resumed` is the checkpoint of each attempt of its training, empty at the start."""

    def __init__(self, client: Client, run: str) -> None:
        super().__init__(name="attempts", daemon=True)
        self._client, self._run, self._over = client, run, threading.Event()
        self.resumed: dict[int, str] = {}

    def run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            job = _job(self._client, self._run)
            if job is not None and job.state in (JOB_STATE_STARTING, JOB_STATE_RUNNING):
                self.resumed[job.epoch] = job.resume_checkpoint

    def stop(self) -> None:
        self._over.set()
        self.join()


def _disturb(cluster: Cluster, client: Client, run: str) -> None:
    """Kill a pod once a checkpoint is committed; later replace all agents, one after another. Raises TrialError."""
    _await_committed(client, run, LEAST)
    pod, agents, job = _ready(cluster), _agents(client), _job(client, run)
    if job is None or job.state == JOB_STATE_DONE:
        raise TrialError(f"the training is done before a pod was killed: give it more --steps: {job}")
    print(f"step {_committed(client, run)} is committed: kubectl delete pod {VICTIM} --force", flush=True)
    cluster.kubectl("-n", NAMESPACE, "delete", "pod", VICTIM, "--grace-period=0", "--force")
    successors: list[str] = []

    def succeeded() -> bool:
        successors[:] = {_ready(cluster)} - {"", pod}
        return bool(successors)

    wait(succeeded, READY_SECONDS, lambda: f"another pod {VICTIM} that is ready")
    wait(
        lambda: _replaced(agents, _agents(client)),
        READY_SECONDS,
        lambda: f"another agent of {VICTIM_NODE}; registered are {_agents(client)}",
    )
    print(f"{VICTIM}: pod {pod[:8]} died, the StatefulSet made pod {successors[0][:8]}; "
          f"its agent is {VICTIM_NODE} again", flush=True)  # fmt: skip
    after = _job(client, run)
    if after is not None and any("asked to stop" in line for line in after.history):
        raise TrialError(f"expected an agent that was killed, and none that was told to stop: {list(after.history)}")
    _await_committed(client, run, _committed(client, run) + EVERY)
    print(f"step {_committed(client, run)} is committed: kubectl rollout restart statefulset/agent", flush=True)
    cluster.kubectl("-n", NAMESPACE, "rollout", "restart", "statefulset/agent")
    _roll_out(cluster)


def _require_resumed(client: Client, run: str, attempts: Mapping[int, str]) -> None:
    """Each attempt went on from the newest decision of those before it. Raises TrialError."""
    job = _job(client, run)
    if job is None or job.state != JOB_STATE_DONE:
        raise TrialError(f"expected a training that is done: {job}")
    made = [each for each in _checkpoints(client, job.name) if each.state in DECIDED]
    steps = [each.step for each in made]
    if steps != list(range(EVERY, job.spec.steps + 1, EVERY)):
        raise TrialError(f"{job.name} decided the steps {steps}, expected each multiple of {EVERY} once")
    if not {1, 2, job.epoch} <= attempts.keys() or job.epoch < LEAST_ATTEMPTS:
        raise TrialError(f"{job.name} had attempts {sorted(attempts)}, expected {LEAST_ATTEMPTS} or more, all observed")
    for attempt, checkpoint in sorted(attempts.items()):
        decided = max((each.step for each in made if each.epoch < attempt), default=0)
        resumed = client.committer.GetCheckpoint(GetRequest(name=checkpoint)).step if checkpoint else 0
        print(f"attempt {attempt} went on after step {resumed}; the newest decision was that of step {decided}")
        if resumed != decided:
            raise TrialError(f"attempt {attempt} of {job.name} went on after step {resumed}, expected {decided}")
    for line in job.history:
        print(f"  {line}")


def _job(client: Client, run: str) -> Job | None:
    """Return the training of a run, None if there is none yet."""
    with contextlib.suppress(Problem):
        stages = {each.name: each for each in client.pipeline.GetRun(GetRequest(name=run)).stages}
        if "train" in stages and stages["train"].resource:
            return client.scheduler.GetJob(GetRequest(name=stages["train"].resource))
    return None


def _checkpoints(client: Client, job: str) -> list[Checkpoint]:
    """Return the checkpoints of a job in the order of their steps."""
    found = client.committer.ListCheckpoints(ListRequest(filter=f"job={job}", page_size=1000)).checkpoints
    return sorted(found, key=lambda each: each.step)


def _committed(client: Client, run: str) -> int:
    """Return the newest committed step, 0 if there is none."""
    job = _job(client, run)
    every = [] if job is None else _checkpoints(client, job.name)
    return max((each.step for each in every if each.state == CHECKPOINT_STATE_COMMITTED), default=0)


def _await_committed(client: Client, run: str, step: int) -> None:
    """Raises TrialError."""
    wait(
        lambda: _committed(client, run) >= step,
        READY_SECONDS,
        lambda: f"a checkpoint of step {step} of {run}; the newest one is of step {_committed(client, run)}",
    )


def _agents(client: Client) -> dict[str, str]:
    """Return the incarnation of the agent of each node that takes ranks."""
    with contextlib.suppress(Problem):
        nodes = client.scheduler.ListNodes(ListRequest()).nodes
        return {each.name: each.incarnation for each in nodes if each.state == NODE_STATE_READY}
    return {}


def _replaced(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """True if the same nodes take ranks as before, and another agent speaks for that of the victim."""
    return now.keys() == before.keys() and now[VICTIM_NODE] != before[VICTIM_NODE]


def _ready(cluster: Cluster) -> str:
    """Return the uid of the pod that is to die or has taken its place, empty if it is not ready."""
    for pod in cluster.pods("agent"):
        conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
        if pod["metadata"]["name"] == VICTIM and conditions.get("Ready") == "True":
            return str(pod["metadata"]["uid"])
    return ""


def _roll_out(cluster: Cluster) -> None:
    cluster.kubectl(
        "-n", NAMESPACE, "rollout", "status", "statefulset/agent", "--timeout", f"{READY_SECONDS:.0f}s",
        seconds=READY_SECONDS + 10,
    )  # fmt: skip


def _entry_point(folder: Path) -> Path:
    """Compile the entry point of the image; return its path. Raises NoCluster, TrialError."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCluster("there is no C compiler for deploy/docker/keeper.c: apt-get install gcc")
    program = folder / "keeper"
    command([compiler, "-O2", "-Wall", "-o", program, ROOT / "deploy" / "docker" / "keeper.c"], seconds=60)
    return program


@contextlib.contextmanager
def _stack(data_dir: Path, secrets: Path) -> Iterator[dict[str, str]]:
    """Yield the addresses of services and S3 by their names in the cluster, while they run. Raises TrialError."""
    made = json.loads((secrets / "made" / "made.json").read_text())
    DataDir(data_dir).write_private("tokens", made["tokens"].encode())
    try:
        command([sys.executable, LOCAL / "stack.py", "up", "--agents", "0", "--data-dir", data_dir], seconds=UP_SECONDS)
        servers = data_dir / "servers"
        (gateway,) = Stack(servers).status(["s3"])
        nodes, record = [each.removeprefix("nodes/") for each in NODES], servers / "keys.json"
        known = json.loads(record.read_text()) | {agent(node): made[f"s3_{agent(node)}"] for node in nodes}
        write_secret(record, json.dumps(known))
        keys(gateway.url or "", servers / "s3", record, nodes)
        names = {f"{name}:7000": (data_dir / "endpoints" / name).read_text().strip() for name in installed_services()}
        names["s3:7070"] = urlsplit(gateway.url or "").netloc.rpartition("@")[2]
        names |= dict.fromkeys(("0.0.0.0:7000", "0.0.0.0:9464"), "127.0.0.1:0")
        yield names | {f"agent-{number}.agent": "127.0.0.1" for number in range(len(NODES))}
    finally:
        stop(data_dir)


def stop(data_dir: Path) -> None:
    """Stop the services and their servers, also those that a killed trial left. Raises TrialError."""
    if data_dir.exists():
        command([sys.executable, LOCAL / "stack.py", "down", "--data-dir", data_dir], seconds=UP_SECONDS)


def _undisturbed(data_dir: Path, sets: Sequence[str]) -> dict[int, str]:
    """Return the state digests by step of the same run on a platform in one directory. Raises TrialError."""
    where = ["--data-dir", str(data_dir)]
    command([TUTTI, "up", "--detach", *where], seconds=120)
    try:
        return _digests(command([TUTTI, "run", RECIPE, *sets, *where, "-o", "json"], seconds=RUN_SECONDS))
    finally:
        command([TUTTI, "down", *where], seconds=120)


def _digests(summary: str) -> dict[int, str]:
    return {each["step"]: each["state_digest"] for each in json.loads(summary)["checkpoints"]}


def _sets(pages: Path, steps: int) -> list[str]:
    keys = {"input.path": pages, "train.steps": steps, "train.checkpoint_every": EVERY, "train.validate_every": steps}
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
