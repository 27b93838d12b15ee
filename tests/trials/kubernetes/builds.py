"""The programs of a Kubernetes control plane, built from the Go module `k8s.io/kubernetes`.

Promises: built once per version, with the dependencies that the go.mod and go.sum of the module name; a machine that
cannot build them is told what is missing.
"""

import json
import shutil
import tempfile
from pathlib import Path

from tests.trials.docker.engine import TrialError, command, tell
from tests.trials.kubernetes.gomodule import MODULE, rewritten

VERSION = "v1.34.2"
"""Of the schemas with which `python -m tools.manifests --check` compares the manifests."""
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
ETCD = "go.etcd.io/etcd/server/v3"
GO = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOWORK": "off"}
DOWNLOAD_SECONDS, BUILD_SECONDS = 900.0, 5400.0


class NoCluster(Exception):
    """No control plane can be had here; the message says why."""


def programs(cache: Path) -> Path:
    """Return the folder of the programs; the first time they are built. Raises NoCluster."""
    folder = cache / "bin" / VERSION
    if all((folder / name).exists() for name in (*PROGRAMS, "etcd")):
        return folder
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise NoCluster("the programs of Kubernetes are built by Go 1.24 or newer: install it from https://go.dev/dl")
    tell(f"builds Kubernetes {VERSION} and etcd from their modules; once, about ten minutes on two cores")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _build(go, cache, folder)
    except TrialError as error:
        raise NoCluster(f"Kubernetes cannot be built: {error}") from error
    return folder


def _build(go: str, cache: Path, folder: Path) -> None:
    """Raises TrialError."""
    words = [go, "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    source = Path(json.loads(command(words, seconds=DOWNLOAD_SECONDS, environment=GO, folder=cache))["Dir"])
    major, minor, _ = VERSION.removeprefix("v").split(".")
    stamp = {"gitVersion": VERSION, "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    flags = " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamp.items())])
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        place = Path(scratch)
        (place / "go.mod").write_text(rewritten((source / "go.mod").read_text(), VERSION))
        shutil.copyfile(source / "go.sum", place / "go.sum")
        made = place / "made"
        made.mkdir()
        for name, package in [("etcd", ETCD), *((name, f"{MODULE}/cmd/{name}") for name in PROGRAMS)]:
            if not (folder / name).exists():
                tell(f"builds {name}")
                command([go, "build", "-trimpath", "-ldflags", flags, "-o", made / name, package],
                        seconds=BUILD_SECONDS, environment=GO, folder=place)  # fmt: skip
                (made / name).replace(folder / name)
