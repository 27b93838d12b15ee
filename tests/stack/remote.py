"""A platform with all services in one process, whose servers are elsewhere: behind networks that a test can spoil."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.command import Result, start, tutti
from tests.faults.processes import until
from tests.network import Network
from tests.stack.conftest import local

SETTINGS = {"kafka": "log.url", "postgres": "database.url", "s3": "blobs.url"}
HEALED_SECONDS = 180.0


@dataclass(frozen=True)
class Remote:
    """`networks` are those to its servers, by their names."""

    data_dir: Path
    networks: Mapping[str, Network]

    def doctor(self) -> Result:
        return tutti("doctor", "--data-dir", self.data_dir, seconds=120)

    def await_word(self, *words: str) -> None:
        """Until the doctor reports a problem with one of these words."""
        said: list[str] = []

        def reported() -> bool:
            said[:] = [line for line in self.doctor().out.splitlines() if line.startswith("BAD  ")]
            return any(word in line for line in said for word in words)

        try:
            until(reported, seconds=HEALED_SECONDS, what=f"one of the words {words} of the doctor")
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {said}") from None
        print(f"events: the doctor: {next(line for line in said if any(word in line for word in words))}")

    def await_health(self) -> None:
        until(lambda: self.doctor().code == 0, seconds=HEALED_SECONDS, what="a healthy platform")


@contextmanager
def servers(folder: Path, *names: str) -> Iterator[dict[str, str]]:
    """The URLs of servers by name, while they run; all of them when none is named."""
    begun = local("servers.py", "up", *names, "--dir", folder, "-o", "json")
    try:
        assert begun.code == 0, begun.err
        yield {each["name"]: each["url"] for each in json.loads(begun.out)}
    finally:
        local("servers.py", "wipe", "--dir", folder)


@contextmanager
def remote_platform(data_dir: Path, urls: Mapping[str, str]) -> Iterator[Remote]:
    """A platform with two agents on the servers of these URLs."""
    networks = {name: Network(url) for name, url in urls.items()}
    extra = {f"TUTTI_{SETTINGS[name].upper().replace('.', '__')}": network.url for name, network in networks.items()}
    process = start("up", "--agents", "2", "--data-dir", data_dir, extra=extra)
    try:
        until(lambda: (data_dir / "endpoint").exists() or process.poll() is not None, seconds=120, what="the platform")
        assert process.poll() is None, process.communicate()[1]
        yield Remote(data_dir, networks)
    finally:
        process.terminate()
        process.communicate(timeout=400)
        for network in networks.values():
            network.close()
