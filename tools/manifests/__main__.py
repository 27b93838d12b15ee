"""What follows from docker-compose.yml: `python -m tools.manifests` writes it, `--check` compares it.

Guarantees: a container that runs a part of Tutti has a workload of the same name, image, user, memory limit and
environment in deploy/kubernetes, and Prometheus scrapes it by its name. `--check` fails when a committed file differs,
or is not valid in Kubernetes.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from tools.manifests.parts import Manifest
from tools.manifests.policies import managed_policies, policies, single_policies
from tools.manifests.stores import roles_job, stores
from tools.manifests.workloads import agents, archive, config, namespace, service

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
PROMETHEUS = ROOT / "deploy" / "docker" / "prometheus" / "prometheus.yml"
NAMES = re.compile(r"(?<=\n        names:\n)(?: {10}- .*\n)+")
"""The names of the containers in the configuration of Prometheus."""
VERSION = "1.34"  # whose schemas the manifests are compared with
HEADER = "# Written by `python -m tools.manifests` from docker-compose.yml; change that, or the script.\n"


def containers() -> dict[str, Any]:
    """The containers of docker-compose.yml by name."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def rendered(parts: Mapping[str, Any]) -> dict[str, str]:
    """Each file's text by its path below deploy/kubernetes."""
    named = modules(parts)
    services = [name for name, module in named.items() if module == f"tutti.{name}"]
    agent = next(name for name, module in named.items() if module == "tutti.trainer")
    base = {
        "namespace.yaml": [namespace()],
        "configmap.yaml": [config()],
        "services.yaml": [each for name in services for each in service(name, parts[name])],
        "door.yaml": service("door", parts["door"]),
        "agents.yaml": agents(parts[agent]),
        "archive.yaml": archive(parts["archive"]),
        "policies.yaml": policies(),
    }
    single = {"stores.yaml": stores(parts), "policies.yaml": single_policies()}
    managed = {"roles.yaml": [roles_job(parts["roles"])], "policies.yaml": managed_policies()}
    files = {}
    for folder, inside in (("base", base), ("single", single), ("managed", managed)):
        resources = [] if folder == "base" else ["../base"]
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [*resources, *inside],
        }
        if folder != "base":
            kustomization["namespace"] = "tutti"
        files[f"{folder}/kustomization.yaml"] = text([kustomization])
        files |= {f"{folder}/{name}": text(manifests) for name, manifests in inside.items()}
    return files


def modules(parts: Mapping[str, Any]) -> dict[str, str]:
    """The first word of each container's command: the module of a part of Tutti."""
    return {name: str(part.get("command", [""])[0]) for name, part in parts.items()}


def scraping(configuration: str, parts: Mapping[str, Any]) -> str:
    """The configuration of Prometheus with the names of all containers that run a service or an agent."""
    named = modules(parts)
    services = sorted(name for name, module in named.items() if module == f"tutti.{name}")
    agents = sorted(name for name, module in named.items() if module == "tutti.trainer")
    lines = "".join(f"          - {name}\n" for name in (*services, *agents))
    made, count = NAMES.subn(lines, configuration)
    if count != 1:
        raise ValueError(f"{PROMETHEUS.relative_to(ROOT)}: {count} lists of names; expected one")
    return made


def invalid(files: Mapping[str, str]) -> Iterator[str]:
    """Each manifest that Kubernetes would refuse, and why."""
    for name, content in files.items():
        for manifest in yaml.safe_load_all(content):
            if manifest["kind"] == "Kustomization":
                continue
            try:
                kubernetes_validate.validate(manifest, VERSION, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"deploy/kubernetes/{name}: {manifest['kind']} {manifest['metadata']['name']}: {error.message}"


class _Plain(yaml.SafeDumper):
    """Without anchors, though manifests share values."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def text(manifests: Sequence[Manifest]) -> str:
    return HEADER + yaml.dump_all(manifests, Dumper=_Plain, sort_keys=False, width=120)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed files, and write nothing")
    check = parser.parse_args(arguments).check
    parts = containers()
    files = rendered(parts)
    paths = {FOLDER / name: content for name, content in files.items()}
    paths[PROMETHEUS] = scraping(PROMETHEUS.read_text(), parts)
    stale = [path for path, content in paths.items() if not _is(path, content)]
    if check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run python -m tools.manifests", file=sys.stderr)
        wrong = list(invalid(files))
        for trouble in wrong:
            print(trouble, file=sys.stderr)
        return 1 if stale or wrong else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(paths[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


def _is(path: Path, content: str) -> bool:
    return path.exists() and path.read_text() == content


if __name__ == "__main__":
    sys.exit(main())
