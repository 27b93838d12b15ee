"""A Docker engine for the trial of docker-compose.yml: the one of this machine, or one started here for the trial.

Promises: an engine that was started here has its own folders and socket and is stopped by the pid in its own pid file;
nothing is left running; where no engine can be had, NoEngine says why.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

START_SECONDS = 30.0
STOP_SECONDS = 60.0
PACKAGES = ("docker.io", "debootstrap", "iptables")
COMPOSE_MODULE = "github.com/docker/compose/v2"
COMPOSE_VERSION = "v2.40.3"
NOWHERE = "http://127.0.0.1:1"


class NoEngine(Exception):
    """No Docker engine can be had here; the message says why."""


class TrialError(Exception):
    """A command failed; the message has the end of its output."""


def tell(line: str) -> None:
    """Print progress to stderr."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Engine:
    """`own`: started by this program. `compose` is the command that stands for `docker compose`."""

    docker: str
    compose: tuple[str, ...]
    environment: Mapping[str, str]
    own: bool

    def run(self, *words: str | Path, seconds: float = 60, check: bool = True) -> str:
        """The output of `docker WORDS`. Raises TrialError."""
        return command([self.docker, *words], seconds=seconds, environment=self.environment, check=check)


def command(
    words: Sequence[str | Path],
    *,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    check: bool = True,
    folder: Path | None = None,
) -> str:
    """The standard output of a command. Raises TrialError."""
    text = [str(word) for word in words]
    try:
        done = subprocess.run(
            text,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            cwd=folder,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired as error:
        raise TrialError(f"{' '.join(text[:6])} did not end within {seconds:.0f} s") from error
    if check and done.returncode != 0:
        raise TrialError(f"{' '.join(text[:6])} failed with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


@contextlib.contextmanager
def engine(cache: Path) -> Iterator[Engine]:
    """The engine of this machine if one answers, else one that is stopped at the end. Raises NoEngine."""
    docker = _docker()
    if docker is not None and _answers(docker, {}):
        yield Engine(docker, _compose(docker, cache), {}, own=False)
        return
    docker = _install()
    compose = _compose(docker, cache)
    with _started(cache, docker) as environment:
        yield Engine(docker, compose, environment, own=True)


def proxied(found: Engine, folder: Path) -> Engine:
    """The same engine with a client, configured in `folder`, that gives every container a proxy which leads nowhere."""
    own = Path(os.environ.get("DOCKER_CONFIG", Path.home() / ".docker"))
    if own.is_dir():  # it has the plugins
        shutil.copytree(own, folder, dirs_exist_ok=True, symlinks=True)
    config = folder / "config.json"
    values = json.loads(config.read_text()) if config.exists() else {}
    proxies = {"default": dict.fromkeys(("httpProxy", "httpsProxy", "allProxy"), NOWHERE)}
    config.write_text(json.dumps({**values, "proxies": proxies}))
    return replace(found, environment={**found.environment, "DOCKER_CONFIG": str(folder)})


def processor_seconds() -> float | None:
    """CPU time of all containers so far, of those that ended too; None where control groups are not those of Docker.

    A trial beside other work takes longer, and needs the same CPU time.
    """
    groups = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError):
        return int((groups / "cpuacct/docker/cpuacct.usage").read_text()) / 1e9
    with contextlib.suppress(OSError):
        usage, _, _ = (groups / "docker/cpu.stat").read_text().partition("\n")
        return int(usage.removeprefix("usage_usec ")) / 1e6
    return None


def _docker() -> str | None:
    """The client of the system's package before any other: a newer one may not speak to an older daemon."""
    return "/usr/bin/docker" if os.access("/usr/bin/docker", os.X_OK) else shutil.which("docker")


def _install() -> str:
    """The Docker client, with a daemon beside it. Raises NoEngine."""
    if os.getuid() != 0:
        raise NoEngine("no Docker engine answers, and only root can start one: start Docker, or run this as root")
    if shutil.which("dockerd") is None or shutil.which("debootstrap") is None:
        if shutil.which("apt-get") is None:
            raise NoEngine("no Docker engine answers, and there is no apt-get to install one with: install Docker")
        tell(f"installs {', '.join(PACKAGES)}; once")
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            command(["apt-get", "update", "-qq"], seconds=300)
            command(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES], seconds=600,
                    environment=quiet)  # fmt: skip
        except TrialError as error:
            raise NoEngine(f"no Docker engine answers, and it cannot be installed: {error}") from error
    docker = _docker()
    if docker is None or shutil.which("dockerd") is None:
        raise NoEngine("no Docker engine answers, and the package docker.io brought none: install Docker")
    return docker


def _compose(docker: str, cache: Path) -> tuple[str, ...]:
    """`docker compose`, or the same program built from its Go module. Raises NoEngine."""
    if subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0:
        return (docker, "compose")
    program = cache / f"docker-compose-{COMPOSE_VERSION}"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            raise NoEngine("Docker has no compose plugin, and there is no Go to build it with: install the plugin")
        tell(f"builds docker compose {COMPOSE_VERSION} from its module; once, some minutes")
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            try:
                command([go, "mod", "download", f"{COMPOSE_MODULE}@{COMPOSE_VERSION}"], seconds=600)
                found = command([go, "env", "GOMODCACHE"], seconds=60).strip()
                source = Path(scratch) / "source"
                shutil.copytree(Path(found) / f"{COMPOSE_MODULE}@{COMPOSE_VERSION}", source)
                command(["chmod", "-R", "u+w", source], seconds=60)
                version = f"-s -w -X {COMPOSE_MODULE}/internal.Version={COMPOSE_VERSION}"
                command([go, "build", "-mod=mod", "-trimpath", "-ldflags", version, "-o", Path(scratch) / "made",
                         "./cmd"], seconds=1200, folder=source)  # fmt: skip
            except TrialError as error:
                raise NoEngine(f"docker compose cannot be built: {error}") from error
            (Path(scratch) / "made").replace(program)
    return (str(program),)


@contextlib.contextmanager
def _started(cache: Path, docker: str) -> Iterator[dict[str, str]]:
    """A daemon of our own; the environment that leads to it. Raises NoEngine."""
    # A socket's path has at most 107 bytes, so it does not lie in the cache.
    name = hashlib.sha256(str(cache).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"tutti-docker-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    pid, socket = folder / "pid", folder / "docker.sock"
    environment = {"DOCKER_HOST": f"unix://{socket}", "DOCKER_BUILDKIT": "0"}
    _stop(pid)
    (cache / "data").mkdir(parents=True, exist_ok=True)
    with open(cache / "dockerd.log", "wb") as log:
        daemon = subprocess.Popen(
            ["dockerd", "--data-root", str(cache / "data"), "--exec-root", str(folder / "exec"), "--pidfile", str(pid),
             "--host", f"unix://{socket}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(docker, environment):
            if daemon.poll() is not None or time.monotonic() > deadline:
                words = (cache / "dockerd.log").read_text(errors="replace")[-1500:]
                raise NoEngine(f"dockerd does not start here; the end of {cache / 'dockerd.log'}:\n{words}")
            time.sleep(0.2)
        yield environment
    finally:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
        subprocess.run(["umount", str(folder / "exec" / "netns" / "default")], capture_output=True, check=False)


def _stop(pid: Path) -> None:
    """End a daemon that a killed trial left."""
    try:
        number = int(pid.read_text())
        name = Path(f"/proc/{number}/comm").read_text().strip()
    except (OSError, ValueError):
        return
    if name != "dockerd":
        return
    tell(f"stops the engine that an earlier trial left (process {number})")
    os.kill(number, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
        time.sleep(0.2)


def _answers(docker: str, environment: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            [docker, "info"], capture_output=True, check=False, timeout=10, env={**os.environ, **environment}
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
