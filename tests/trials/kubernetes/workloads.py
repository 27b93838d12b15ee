"""The workloads of the overlay `single` on a cluster with nodes: rolled out, evicted, drained, scaled, replaced.

Every function raises TrialError, which names what is missing.
"""

from collections import Counter

from tests.trials.docker.engine import TrialError
from tests.trials.kubernetes.api import ApiError, Manifest
from tests.trials.kubernetes.cluster import NAMESPACE, Cluster, wait
from tests.trials.kubernetes.kubelet import Kubelets

SECONDS = 300.0
TOO_MANY = 429
HERE = f"/namespaces/{NAMESPACE}"
MORE = 4


def roll_out(cluster: Cluster) -> None:
    """Every workload is rolled out, every Service leads to its pods, and agents have names of their own."""
    names = cluster.kubectl("-n", NAMESPACE, "get", "deployments,statefulsets", "-o", "name").split()
    for name in names:
        _rolled_out(cluster, name)
    cluster.kubectl("-n", NAMESPACE, "wait", "job/roles", "--for=condition=complete", f"--timeout={SECONDS:.0f}s")
    pods = cluster.admin.listed(f"/api/v1{HERE}/pods")
    spread = Counter(pod["spec"]["nodeName"] for pod in pods)
    print(f"{len(names)} workloads and the Job roles rolled out, {len(pods)} pods on {dict(sorted(spread.items()))}")
    services = {each["metadata"]["name"] for each in cluster.admin.listed(f"/api/v1{HERE}/services")}
    wait(
        lambda: services == set(_endpoints(cluster)),
        SECONDS,
        lambda: f"pods behind the Services {sorted(services - set(_endpoints(cluster)))}",
    )
    hosts = sorted(each.get("hostname", "") for each in _endpoints(cluster)["agent"])
    if hosts != ["agent-0", "agent-1"]:
        raise TrialError(f"the Service agent gives the names {hosts}, expected agent-0 and agent-1")
    print(f"{len(services)} Services lead to their pods; agents have the names agent-0.agent and agent-1.agent")


def evict(cluster: Cluster, kubelets: Kubelets) -> None:
    """A budget lets one agent be evicted, and refuses the next one until the first is back."""
    budget = f"/apis/policy/v1{HERE}/poddisruptionbudgets/agent"
    wait(lambda: _allows(cluster, budget), SECONDS, lambda: "the budget of the agents to allow an eviction")
    with kubelets.paused():
        _evict(cluster, "agent-0")
        try:
            _evict(cluster, "agent-1")
        except ApiError as error:
            if error.code != TOO_MANY:
                raise
            print(f"agent-0 was evicted; agent-1 was not: {str(error).partition(': ')[2]}", flush=True)
        else:
            raise TrialError("both agents were evicted at once, expected one at a time")
    _rolled_out(cluster, "statefulset/agent")
    wait(lambda: _allows(cluster, budget), SECONDS, lambda: "the budget of the agents to allow the next eviction")


def drain(cluster: Cluster) -> None:
    """`kubectl drain` empties a node within the budgets."""
    node = str(cluster.pods("agent")[0]["spec"]["nodeName"])
    cluster.kubectl("drain", node, "--delete-emptydir-data", f"--timeout={SECONDS:.0f}s", seconds=SECONDS + 10)
    left = [pod["metadata"]["name"] for pod in cluster.admin.listed(f"/api/v1{HERE}/pods") if _is_on(pod, node)]
    if left:
        raise TrialError(f"{node} was drained, and still has {left}")
    for name in cluster.kubectl("-n", NAMESPACE, "get", "deployments,statefulsets", "-o", "name").split():
        _rolled_out(cluster, name)
    cluster.kubectl("uncordon", node)
    print(f"{node} was drained; all workloads are rolled out on the other nodes")


def scale(cluster: Cluster) -> None:
    """Agents are added and removed; each has its own volume."""
    for replicas in (MORE, 2):
        cluster.kubectl("-n", NAMESPACE, "scale", "statefulset/agent", "--replicas", str(replicas))
        _rolled_out(cluster, "statefulset/agent")
        wait(
            lambda: len(cluster.pods("agent")) == replicas,  # noqa: B023
            SECONDS,
            lambda: f"{replicas} agents; there are {len(cluster.pods('agent'))}",  # noqa: B023
        )
    claims = [each["metadata"]["name"] for each in cluster.admin.listed(f"/api/v1{HERE}/persistentvolumeclaims")]
    volumes = sorted(name for name in claims if name.startswith("data-agent-"))
    if len(volumes) != MORE:
        raise TrialError(f"{MORE} agents had the volumes {volumes}, expected one each")
    print(f"scaled the agents to {MORE} and back to 2")


def replace(cluster: Cluster, kubelets: Kubelets) -> None:
    """A rolling restart replaces one agent after another."""
    before = len(kubelets.events)
    cluster.kubectl("-n", NAMESPACE, "rollout", "restart", "statefulset/agent")
    _rolled_out(cluster, "statefulset/agent")
    found = [f"{each.pod} {each.what}" for each in kubelets.events[before:] if each.pod.startswith("agent-")]
    expected = [f"{pod} {what}" for pod in ("agent-1", "agent-0") for what in ("stopped", "started", "ready")]
    if found != expected:
        raise TrialError(f"a rolling restart of the agents: {found}, expected {expected}")
    print(f"rolling restart of the agents: {', '.join(found)}")


def _rolled_out(cluster: Cluster, name: str) -> None:
    try:
        cluster.kubectl("-n", NAMESPACE, "rollout", "status", name, f"--timeout={SECONDS:.0f}s", seconds=SECONDS + 10)
    except TrialError as error:
        pods = cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "wide")
        events = cluster.kubectl("-n", NAMESPACE, "get", "events", "--field-selector", "type=Warning")
        raise TrialError(f"{error}\n{pods}\n{events[-3000:]}") from None


def _endpoints(cluster: Cluster) -> dict[str, list[Manifest]]:
    """Return the endpoints of each Service that has some."""
    found: dict[str, list[Manifest]] = {}
    for each in cluster.admin.listed(f"/apis/discovery.k8s.io/v1{HERE}/endpointslices"):
        if each.get("endpoints"):
            found.setdefault(each["metadata"]["labels"]["kubernetes.io/service-name"], []).extend(each["endpoints"])
    return found


def _allows(cluster: Cluster, budget: str) -> bool:
    return bool(cluster.admin.get(budget).get("status", {}).get("disruptionsAllowed", 0) > 0)


def _evict(cluster: Cluster, pod: str) -> None:
    """Raises ApiError."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    cluster.admin.create(f"/api/v1{HERE}/pods/{pod}/eviction", body)


def _is_on(pod: Manifest, node: str) -> bool:
    return bool(pod["spec"].get("nodeName") == node)
