"""Fixtures: real Kafka, Postgres and S3 servers, started at most once a session and shared by all workers.

Promises: `kafka_url`, `postgres_url` and `s3_url` answer; where a server cannot be had the test is skipped with the way
to get it, and with CI set it fails; every server is stopped by its pid when the session ends.
"""

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.lacking import lacking

SCRIPT = Path(__file__).parents[1] / "deploy" / "local" / "servers.py"


class CannotBeHad(Exception):
    """The server's program is not on this machine."""


@dataclass(frozen=True)
class LocalServer:
    """A server of deploy/local with its data below `folder`."""

    name: str
    folder: Path

    def up(self) -> str:
        """Start it unless it answers already; its URL."""
        return self._ask("up")

    def restart(self) -> str:
        return self._ask("restart")

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        found = json.loads((self.folder / self.name / "pid.json").read_text())
        process = psutil.Process(found["pid"])
        if abs(process.create_time() - found["started"]) < 0.05:
            process.kill()

    def _ask(self, command: str) -> str:
        (status,) = json.loads(_servers(command, self.name, folder=self.folder))
        url: str = status["url"]
        return url


def _servers(command: str, *names: str, folder: Path) -> str:
    result = subprocess.run(
        [sys.executable, SCRIPT, command, *names, "--dir", folder, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if result.returncode != 0:
        raise CannotBeHad(result.stderr.strip())
    return result.stdout


def _shared_folder(config: pytest.Config) -> Path:
    """One folder for the whole session: xdist gives each worker a folder below the controller's."""
    base: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    return (base.parent if hasattr(config, "workerinput") else base) / "servers"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        return  # the controller does it, after its last worker
    folder = _shared_folder(session.config)
    if folder.exists():
        _servers("wipe", folder=folder)


def _up(server: LocalServer) -> str:
    try:
        return server.up()
    except CannotBeHad as error:
        lacking(str(error))


@pytest.fixture(scope="session")
def kafka_url(pytestconfig: pytest.Config) -> str:
    return _up(LocalServer("kafka", _shared_folder(pytestconfig)))


@pytest.fixture(scope="session")
def postgres_url(pytestconfig: pytest.Config) -> str:
    return _up(LocalServer("postgres", _shared_folder(pytestconfig)))


@pytest.fixture(scope="session")
def _s3_server_url(pytestconfig: pytest.Config) -> str:
    return _up(LocalServer("s3", _shared_folder(pytestconfig)))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is such a disk: what a real one loses is simulated, its syncs only cost time."""
    disk = Path("/dev/shm")  # noqa: S108
    if not os.access(disk, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=disk, prefix="tutti-test-") as made:
        yield Path(made)


@pytest.fixture
def unique() -> str:
    """A name that no other test has: for topics, schemas, buckets."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def s3_url(_s3_server_url: str, unique: str) -> str:
    """A bucket of this test's own."""
    return urlsplit(_s3_server_url)._replace(path=f"/{unique}").geturl()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Callable[[str], LocalServer]]:
    """Servers of this test alone, which it may kill."""
    with _servers_below(tmp_path / "own") as start:
        yield start


@pytest.fixture(scope="module")
def server_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], LocalServer]]:
    """Servers of one module, for tests that configure them: with users, for instance."""
    with _servers_below(tmp_path_factory.mktemp("servers") / "own") as start:
        yield start


@contextmanager
def _servers_below(folder: Path) -> Iterator[Callable[[str], LocalServer]]:
    def start(name: str) -> LocalServer:
        server = LocalServer(name, folder)
        _up(server)
        return server

    yield start
    if folder.exists():
        _servers("wipe", folder=folder)
