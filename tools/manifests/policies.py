"""Who may connect to whom: nothing that is not named here."""

from collections.abc import Mapping, Sequence

from tools.manifests.parts import METRICS, PAGES, PART_OF, RPC, Manifest, metadata

KAFKA, POSTGRES, S3, DNS, OTLP = 9092, 5432, 7070, 53, 4317
STORES = {"kafka": KAFKA, "postgres": POSTGRES, "s3": S3}
USERS = {
    "kafka": ("service", "archive"),
    "postgres": ("service", "init", "archive"),
    "s3": ("service", "agent", "init", "archive"),
}
PRIVATE = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"]


def policies() -> list[Manifest]:
    """Of the base. Every service names all the others in its settings, so each may call each."""
    return [
        policy("default-deny", {}, ingress=[], egress=[]),
        policy("names", PART_OF, egress=[{"to": [every_namespace()], "ports": [*ports(DNS, "UDP"), *ports(DNS)]}]),
        policy(
            "services",
            of("service"),
            ingress=[{"from": [peer("service"), peer("agent"), peer("door")], "ports": ports(RPC)}],
            egress=[{"to": [peer("service")], "ports": ports(RPC)}],
        ),
        # Ranks of a gang choose their ports.
        policy(
            "agents",
            of("agent"),
            ingress=[{"from": [peer("agent")]}],
            egress=[{"to": [peer("agent")]}, {"to": [peer("service")], "ports": ports(RPC)}],
        ),
        policy(
            "door",
            of("door"),
            ingress=[{"ports": ports(RPC)}],
            egress=[{"to": [peer("service")], "ports": ports(RPC)}],
        ),
        policy("pages-pipeline", named("pipeline"), ingress=[{"ports": ports(PAGES)}]),
        policy("pages-annotation", named("annotation"), ingress=[{"ports": ports(PAGES)}]),
        policy("pages-chat", named("chat"), ingress=[{"ports": ports(PAGES)}]),
        # Prometheus and the collector are yours, in a namespace with this label.
        policy("scrapes", PART_OF, ingress=[{"from": [observers()], "ports": ports(METRICS)}]),
        policy("traces", PART_OF, egress=[{"to": [observers()], "ports": ports(OTLP)}]),
        # The crawler asks public addresses only.
        policy(
            "crawls",
            named("ingest"),
            egress=[
                {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": PRIVATE}}], "ports": [*ports(80), *ports(443)]}
            ],
        ),
    ]


def single_policies() -> list[Manifest]:
    """Who reaches the stores in the cluster, and nobody else."""
    found = []
    for store, port in STORES.items():
        found.append(
            policy(store, named(store), ingress=[{"from": [peer(user) for user in USERS[store]], "ports": ports(port)}])
        )
        found += [
            policy(f"{user}-to-{store}", of(user), egress=[{"to": [{"podSelector": labels(named(store))}],
                                                            "ports": ports(port)}])
            for user in USERS[store]
        ]  # fmt: skip
    return found


def managed_policies() -> list[Manifest]:
    """The stores are outside: narrow the address block to theirs."""
    anywhere = [{"ipBlock": {"cidr": "0.0.0.0/0"}}]
    return [
        policy(f"{user}-to-{store}", of(user), egress=[{"to": anywhere, "ports": ports(port)}])
        for store, port in {**STORES, "s3": 443}.items()
        for user in USERS[store]
    ]


def policy(
    name: str,
    pods: Mapping[str, str],
    *,
    ingress: Sequence[Manifest] | None = None,
    egress: Sequence[Manifest] | None = None,
) -> Manifest:
    spec: Manifest = {"podSelector": labels(pods), "policyTypes": []}
    for kind, rules in (("Ingress", ingress), ("Egress", egress)):
        if rules is not None:
            spec["policyTypes"].append(kind)
            if rules:
                spec[kind.lower()] = list(rules)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name),
        "spec": spec,
    }


def labels(pods: Mapping[str, str]) -> Manifest:
    return {"matchLabels": dict(pods)} if pods else {}


def of(component: str) -> dict[str, str]:
    return {**PART_OF, "app.kubernetes.io/component": component}


def named(name: str) -> dict[str, str]:
    return {**PART_OF, "app.kubernetes.io/name": name}


def peer(component: str) -> Manifest:
    return {"podSelector": labels(of(component))}


def every_namespace() -> Manifest:
    return {"namespaceSelector": {}}


def observers() -> Manifest:
    return {"namespaceSelector": {"matchLabels": {"tutti.dev/observes": "true"}}}


def ports(number: int, protocol: str = "TCP") -> list[Manifest]:
    return [{"protocol": protocol, "port": number}]
