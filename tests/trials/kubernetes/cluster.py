"""A Kubernetes control plane on this machine: etcd, API server, controller manager and scheduler, as processes.

Promises: loopback only; certificates and the database are made anew by each trial; processes are stopped by pid, also
those that a killed trial left.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM

from processes import Process, free_port, load, save, start

from tests.trials.docker.engine import TrialError, tell
from tests.trials.kubernetes.api import Api, ApiError, Manifest
from tests.trials.kubernetes.certificates import LOOPBACK, Certificates

READY_SECONDS = 300.0
KUBECTL_SECONDS = 240.0
LOOK_SECONDS = 0.2
ADMIN = "trial"
UNROUTED = "192.0.2.1"
"""The address that the API server announces (RFC 5737). It refuses loopback here, and nobody uses the address."""
SERVICES = "10.96.0.0/16"
NAMESPACE = "tutti"


@dataclass(frozen=True)
class Cluster:
    """`address`: HOST:PORT of the API server; `kubeconfig`: the settings of kubectl, as an administrator."""

    folder: Path
    programs: Path
    address: str
    certificates: Certificates
    kubeconfig: Path
    admin: Api

    def kubectl(
        self, *words: str | Path, seconds: float = KUBECTL_SECONDS, folder: Path | None = None, text: str | None = None
    ) -> str:
        """Return the output of `kubectl WORDS`; `text` is its input. Raises TrialError, also when `apply` warns."""
        line = [str(word) for word in (self.programs / "kubectl", *words)]
        try:
            done = subprocess.run(
                line,
                input=text or "",
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
                cwd=folder,
                env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)},
            )
        except subprocess.TimeoutExpired as error:
            raise TrialError(f"kubectl {' '.join(line[1:])} did not end within {seconds:.0f} s") from error
        if done.returncode != 0:
            raise TrialError(f"kubectl {' '.join(line[1:])} failed:\n{(done.stdout + done.stderr)[-3000:]}")
        if "Warning:" in done.stderr and words[0] == "apply":
            raise TrialError(f"kubectl {' '.join(line[1:])} warned:\n{done.stderr[-3000:]}")
        return done.stdout

    def pods(self, name: str) -> list[Manifest]:
        """Return the pods of a workload. Raises ApiError."""
        selected = f"labelSelector=app.kubernetes.io%2Fname%3D{name}"
        return self.admin.listed(f"/api/v1/namespaces/{NAMESPACE}/pods?{selected}")

    def api(self, name: str, *, group: str = "") -> Api:
        """Return the API as this user sees it."""
        certificate, key = self.certificates.issue(name, group=group)
        return Api(self.address, authority=self.certificates.authority, certificate=certificate, key=key)


def wait(condition: Callable[[], bool], seconds: float, missing: Callable[[], str]) -> None:
    """Raises TrialError, which says what is missing."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TrialError(f"waited {seconds:.0f} s for {missing()}")
        time.sleep(LOOK_SECONDS)


def stop_left(folder: Path) -> None:
    """Stop the processes that an earlier trial recorded in a folder."""
    for record in sorted(folder.glob("**/*.pid.json"), key=lambda path: path.stat().st_mtime, reverse=True):
        if (process := load(record)) is not None and process.is_alive():
            tell(f"stops {record.name.removesuffix('.pid.json')} of an earlier trial (process {process.pid})")
            process.stop(SIGTERM)
        record.unlink(missing_ok=True)


@contextlib.contextmanager
def running(folder: Path, programs: Path) -> Iterator[Cluster]:
    """Yield a new cluster without nodes; it is stopped at the end. Raises TrialError, ServerError."""
    stop_left(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    certificates = Certificates(folder / "certificates")
    plane = _Plane(folder, programs, certificates)
    try:
        cluster = plane.begin()
        yield cluster
    finally:
        plane.end()


class _Plane:
    def __init__(self, folder: Path, programs: Path, certificates: Certificates) -> None:
        self._folder, self._programs, self._certificates = folder, programs, certificates
        self._started: list[tuple[str, Process]] = []
        serving, key = certificates.issue("server", hosts=(LOOPBACK, "localhost", "kubernetes.default.svc"))
        self._pair = serving, key

    def begin(self) -> Cluster:
        store = self._etcd()
        address = self._api_server(store)
        api = Api(address, authority=self._certificates.authority, certificate=self._admin[0], key=self._admin[1])
        self._await("kube-apiserver", lambda: _answers(api, "/readyz"), "the API server to be ready")
        self._controllers(address)
        cluster = Cluster(
            self._folder,
            self._programs,
            address,
            self._certificates,
            self._certificates.kubeconfig(address, "kubectl", group="system:masters"),
            api,
        )
        accounts = "/api/v1/namespaces/default/serviceaccounts/default"
        self._await("kube-controller-manager", lambda: _answers(api, accounts), "the controllers to make an account")
        return cluster

    def end(self) -> None:
        while self._started:
            name, process = self._started.pop()
            process.stop(SIGTERM)
            (self._folder / f"{name}.pid.json").unlink(missing_ok=True)

    @property
    def _tls(self) -> list[str]:
        return [f"--tls-cert-file={self._pair[0]}", f"--tls-private-key-file={self._pair[1]}"]

    def _etcd(self) -> str:
        ca, (certificate, key) = self._certificates.authority, self._pair
        client, peer = f"https://{LOOPBACK}:{free_port()}", f"http://{LOOPBACK}:{free_port()}"
        self._start(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--trusted-ca-file={ca}",
            f"--cert-file={certificate}",
            f"--key-file={key}",
            "--client-cert-auth",
            "--unsafe-no-fsync",
        )
        return client

    def _api_server(self, store: str) -> str:
        authority, port = self._certificates.authority, free_port()
        self._admin = self._certificates.issue(ADMIN, group="system:masters")
        self._accounts = self._certificates.signing_key()
        self._start(
            "kube-apiserver",
            f"--etcd-servers={store}",
            f"--etcd-cafile={authority}",
            f"--etcd-certfile={self._pair[0]}",
            f"--etcd-keyfile={self._pair[1]}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--advertise-address={UNROUTED}",
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={SERVICES}",
            f"--client-ca-file={authority}",
            *self._tls,
            "--anonymous-auth=false",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._accounts}",
            f"--service-account-signing-key-file={self._accounts}",
            f"--cert-dir={self._folder / 'apiserver'}",
            "--profiling=false",
        )
        return f"{LOOPBACK}:{port}"

    def _controllers(self, address: str) -> None:
        for name, more in (
            (
                "kube-controller-manager",
                [
                    "--use-service-account-credentials=true",
                    f"--service-account-private-key-file={self._accounts}",
                    f"--root-ca-file={self._certificates.authority}",
                    # The stand-in for the kubelets shares a busy machine, and may renew a lease late.
                    f"--node-monitor-grace-period={READY_SECONDS:.0f}s",
                ],
            ),
            ("kube-scheduler", []),
        ):
            settings = self._certificates.kubeconfig(address, f"system:{name}")
            self._start(
                name,
                *(f"--{use}kubeconfig={settings}" for use in ("", "authentication-", "authorization-")),
                f"--bind-address={LOOPBACK}",
                f"--secure-port={free_port()}",
                *self._tls,
                "--leader-elect=false",
                "--profiling=false",
                *more,
            )

    def _start(self, name: str, *options: str) -> None:
        environment = {"HOME": str(self._folder)}
        process = start([self._programs / name, *options], log=self._folder / f"{name}.log", environment=environment)
        self._started.append((name, process))
        save(self._folder / f"{name}.pid.json", process)

    def _await(self, name: str, condition: Callable[[], bool], what: str) -> None:
        """Raises TrialError, with the end of the log of `name`."""
        dead: list[str] = []

        def settled() -> bool:
            dead[:] = [each for each, process in self._started if not process.is_alive()]
            return bool(dead) or condition()

        def missing() -> str:
            return f"{what}; the end of its log:\n{_end(self._folder / f'{name}.log')}"

        wait(settled, READY_SECONDS, missing)
        if dead:
            raise TrialError(f"{dead[0]} ended; the end of its log:\n{_end(self._folder / f'{dead[0]}.log')}")


def _answers(api: Api, path: str) -> bool:
    with contextlib.suppress(ApiError):
        api.get(path)
        return True
    return False


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] if log.exists() else "(none)"
