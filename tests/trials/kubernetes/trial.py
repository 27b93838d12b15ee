"""The trial of deploy/kubernetes on a real control plane: `make kubernetes-test`.

It builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl from their Go modules (once, in
build/kubernetes), starts them on loopback with new certificates, and carries out the commands of
docs/operations/containers.md:

  apply   kubectl applies both overlays; the API server accepts every manifest, without a warning, and twice the same
  nodes   with nodes, the scheduler places all pods and every workload rolls out; a budget refuses the second eviction;
          a node is drained; agents are scaled, and replaced one after another
  gang    the pods of the agents are processes; one dies while a training runs on both: the training goes on from its
          last decision, and ends with the states of an undisturbed one

The kubelets are a stand-in (kubelet.py): no container is run, no image is pulled, no network policy is enforced. Exit
codes: 0 passed, 1 failed, 77 the programs cannot be built here.
"""

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from processes import ServerError

from tests.trials.docker.engine import TrialError, command, tell
from tests.trials.kubernetes import cluster, gang, kubelet, workloads
from tests.trials.kubernetes.builds import VERSION, NoCluster, programs
from tests.trials.kubernetes.cluster import NAMESPACE, Cluster
from tutti.chassis.errors import Problem

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / "build" / "kubernetes"
FOLDER = CACHE / "trial"
NO_CLUSTER, INTERRUPTED = 77, 130
PARTS = ("apply", "nodes", "gang")
NODES = ("node-1", "node-2", "node-3")
GENERATIONS = r'jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.generation}{"\n"}{end}'
OUTSIDE = {
    "--log": "kafka.example:9093",
    "--database": "postgresql://admin:secret@db.example:5432/tutti",
    "--blobs": "s3://key:secret@s3.example/tutti",
}
"""Stores of the overlay `managed`; nothing connects to them."""


def trial(given: argparse.Namespace) -> None:
    """Raises TrialError, NoCluster, ServerError."""
    CACHE.mkdir(parents=True, exist_ok=True)
    built = programs(CACHE)
    gang.stop(FOLDER / "stack")
    began = time.monotonic()
    with cluster.running(FOLDER, built) as found:
        tell(f"Kubernetes {VERSION} answers at {found.address} after {time.monotonic() - began:.1f} s")
        tell("STAND-INS: there are no kubelets; no container, image or network policy is tried.")
        apply(found, "managed", FOLDER / "managed", OUTSIDE)
        found.kubectl("delete", "namespace", NAMESPACE, "--timeout", "300s", seconds=320)
        if given.until == "apply":
            apply(found, "single", FOLDER / "secrets", {})
            return
        with kubelet.serving(found, NODES, FOLDER / "volumes") as kubelets:
            apply(found, "single", FOLDER / "secrets", {})
            workloads.roll_out(found)
            workloads.evict(found, kubelets)
            workloads.drain(found)
            workloads.scale(found)
            workloads.replace(found, kubelets)
            if given.until == "gang":
                gang.restart(found, kubelets, FOLDER, steps=given.steps)


def apply(found: Cluster, overlay: str, secrets: Path, stores: dict[str, str]) -> None:
    """Apply an overlay as the documentation says; again, nothing changes. Raises TrialError."""
    folder = ROOT / "deploy" / "kubernetes"
    options: list[str | Path] = []
    for option, value in stores.items():
        path = secrets.parent / f"store{option}"
        path.write_text(value)
        path.chmod(0o600)
        options += [option, path if "://" in value else value]
    found.kubectl("apply", "-f", "../base/namespace.yaml", folder=folder / overlay)
    credentials = command([sys.executable, folder / "credentials.py", secrets, *options], seconds=180)
    found.kubectl("apply", "-f", "-", text=credentials)
    accepted = found.kubectl("apply", "-k", ".", folder=folder / overlay).splitlines()
    kinds = Counter(line.partition("/")[0].partition(".")[0] for line in accepted)
    print(f"{overlay}: the API server accepted {len(accepted)} manifests: "
          f"{', '.join(f'{number} {kind}' for kind, number in sorted(kinds.items()))}", flush=True)  # fmt: skip
    # The lines of kubectl do not tell: it always patches some lists, also where that changes nothing.
    shown = ("get", "-k", ".", "-o", GENERATIONS)
    before = found.kubectl(*shown, folder=folder / overlay).splitlines()
    found.kubectl("apply", "-k", ".", folder=folder / overlay)
    if changed := sorted(set(found.kubectl(*shown, folder=folder / overlay).splitlines()) - set(before)):
        raise TrialError(f"{overlay}: applied again, these manifests changed what is stored: {changed}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.trials.kubernetes.trial",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--until", choices=PARTS, default=PARTS[-1], help="the last part to carry out; %(default)s")
    parser.add_argument("--steps", type=int, default=1000, help="steps of the training; %(default)s")
    given = parser.parse_args(arguments)
    if given.steps % gang.EVERY or given.steps <= gang.LEAST:
        parser.error(f"--steps {given.steps}: expected a multiple of {gang.EVERY} above {gang.LEAST}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is stopped then too
    began = time.monotonic()
    try:
        trial(given)
    except NoCluster as error:
        print(f"no trial: {error}", file=sys.stderr)
        return NO_CLUSTER
    except (TrialError, ServerError, Problem) as error:
        print(f"FAILED: {error}\nlogs are in {FOLDER}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    print(f"passed in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
