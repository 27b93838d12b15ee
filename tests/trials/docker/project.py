"""The compose project of a trial: docker-compose.yml under a name, a port and volumes of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.trials.docker.engine import Engine, TrialError, command

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / "build" / "docker"
TUTTI = str(Path(sys.executable).with_name("tutti"))
UP_SECONDS, REPLICATED_UP_SECONDS = 180, 480
REPLICAS, READERS = "replicas", "readers"
READERS_PORTS = ("TUTTI_KAFKA_PORT", "TUTTI_POSTGRES_PORT", "TUTTI_S3_PORT")
LOOK_SECONDS = 0.5
MEMORY = (
    "cd /sys/fs/cgroup && cat memory.current memory.stat 2>/dev/null || "
    "cat memory/memory.usage_in_bytes memory/memory.stat"
)
"""The bytes of a container, then what they are, by either version of control groups."""


def _first(ports: str) -> str:
    """The URL of the first of these ports on loopback."""
    return f"http://127.0.0.1:{ports.partition('-')[0]}"


@dataclass
class Project:
    engine: Engine
    name: str
    port: int
    input: Path
    """the folder that the services see as /input"""
    layers: tuple[str, ...] = ()
    """of deploy/compose, such as tls"""
    single: tuple[str, ...] = ()
    """services that have one replica, whatever a layer says"""
    overrides: list[Path] = field(default_factory=list)
    """more compose files, which come last"""
    backups: Path | None = None
    """the folder that `archive` sees as /backups, if not a volume of the project"""
    folder: Path = ROOT
    """the clone where the commands are called"""
    token: str = field(default="", repr=False)
    authority: Path | None = None

    @property
    def network(self) -> str:
        return f"{self.name}_default"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def compose(self, *words: str, seconds: float = 120) -> str:
        """Raises TrialError."""
        pages, annotation = self._ports(1), self._ports(3)
        settings = {
            "TUTTI_PORT": str(self.port),
            "TUTTI_PAGES_PORT": pages,
            "TUTTI_PAGES_URL": _first(pages),
            "TUTTI_ANNOTATION_PORT": annotation,
            "TUTTI_ANNOTATION_URL": _first(annotation),
            "TUTTI_CHAT_PORT": str(self.port + 4 + len(READERS_PORTS)),
            "TUTTI_PROMETHEUS_PORT": str(self.port + 2),
            **{name: str(self.port + 4 + number) for number, name in enumerate(READERS_PORTS)},
            "TUTTI_INPUT": str(self.input),
            **({"TUTTI_BACKUPS": str(self.backups)} if self.backups else {}),
        }
        layers = [self.folder / "deploy" / "compose" / f"{layer}.yaml" for layer in self.layers]
        files = [self.folder / "docker-compose.yml", *layers, *self.overrides]
        named = [word for file in files for word in ("--file", file)]
        return command(
            [*self.engine.compose, "--project-name", self.name, *named, *words],
            seconds=seconds,
            environment={**self.engine.environment, **settings},
        )

    def up(self, *options: str) -> float:
        """The seconds until everything is healthy. Raises TrialError."""
        began = time.monotonic()
        scales = [word for name in self.single for word in ("--scale", f"{name}=1")]
        seconds = REPLICATED_UP_SECONDS if REPLICAS in self.layers else UP_SECONDS
        self.compose("up", "-d", "--wait", *options, *scales, seconds=seconds)
        took = time.monotonic() - began
        self.token = self.compose("run", "--rm", "-T", "--no-deps", "token").strip()
        if "tls" in self.layers:
            self.authority = CACHE / "ca.pem"
            self.authority.write_text(self.compose("run", "--rm", "-T", "--no-deps", "authority"))
        return took

    def down(self) -> None:
        self.compose("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "20")

    def services(self) -> list[str]:
        """Those that keep running."""
        return sorted({each["Service"] for each in self._listed() if each["State"] == "running"})

    def containers(self, service: str) -> list[str]:
        """The ids of the containers of a service, also of those that have ended."""
        labels = {"project": self.name, "service": service}
        filters = [
            word for name, value in labels.items() for word in ("--filter", f"label=com.docker.compose.{name}={value}")
        ]
        return self.engine.run("ps", "--all", "--quiet", *filters).split()

    def container(self, service: str) -> str:
        """Raises TrialError when there is none."""
        found = self.containers(service)
        if not found:
            raise TrialError(f"there is no container of {service}")
        return found[0]

    def inspect(self, container: str, form: str) -> str:
        return self.engine.run("inspect", "-f", form, container).strip()

    def started_at(self, container: str) -> str:
        return self.inspect(container, "{{.State.StartedAt}}")

    def unhealthy(self) -> list[str]:
        """Containers that should run and are not healthy now."""
        names = self.engine.run("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={self.name}")
        form = "{{.Name}} {{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}"
        lines = [line.split() for line in self.engine.run("inspect", "-f", form, *names.split()).splitlines()]
        return [words[0].lstrip("/") for words in lines if len(words) == 3 and words[1:] != ["running", "healthy"]]

    def memory(self) -> dict[str, float]:
        """MiB of each service without the page cache, which the kernel can drop.

        It counts a page for the container that reads it first. `docker stats` includes those that were read twice:
        some 200 MiB if the images were just built.
        """
        found: dict[str, float] = {}
        for service in self.services():
            for container in self.containers(service):
                used, *lines = self.engine.run("exec", container, "sh", "-c", MEMORY).splitlines()
                kept = dict(line.split()[:2] for line in lines)
                cache = sum(int(kept.get(f"total_{each}", kept[each])) for each in ("active_file", "inactive_file"))
                found[service] = found.get(service, 0.0) + (int(used) - cache) / 2**20
        return found

    def tutti(self, *words: str, seconds: float = 300) -> "subprocess.CompletedProcess[str]":
        """The command, through the front door. Raises TrialError if it does not end in time."""
        try:
            return subprocess.run(
                [TUTTI, *words, "--address", self.address],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
                env={**os.environ, "TUTTI_TOKEN": self.token, "TUTTI_TLS__CA": str(self.authority or "")},
            )
        except subprocess.TimeoutExpired as error:
            raise TrialError(f"tutti {' '.join(words)} did not end within {seconds:.0f} s") from error

    def wait(self, condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
        """Raises TrialError."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TrialError(f"waited {seconds:.0f} s for {what()}")
            time.sleep(LOOK_SECONDS)

    def _ports(self, number: int) -> str:
        """One port on loopback, or one for each of two replicas."""
        first = self.port + 10 * number
        return f"{first}-{first + 1}" if REPLICAS in self.layers else str(self.port + number)

    def _listed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.compose("ps", "--all", "--format", "json").splitlines()]
