"""Kafka, Postgres and S3 for a benchmark, as `deploy/local/servers.py` starts them."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.program import ROOT, NotHere

SERVERS_SECONDS = 600


@contextmanager
def real_servers(folder: Path, *names: str) -> Iterator[dict[str, str]]:
    """The URLs by name, for as long as the block lasts. Raises NotHere."""
    if "kafka" in names and shutil.which("java") is None:
        raise NotHere("Kafka needs Java 17 or newer: apt-get install openjdk-17-jre-headless maven")
    where = [*names, "--dir", str(folder), "-o", "json"]
    started = _servers("up", where)
    try:
        if started.returncode != 0:
            raise NotHere(started.stderr.strip())
        yield {each["name"]: each["url"] for each in json.loads(started.stdout)}
    finally:
        _servers("wipe", where)


def _servers(verb: str, where: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "deploy" / "local" / "servers.py"), verb, *where]
    return subprocess.run(command, capture_output=True, text=True, timeout=SERVERS_SECONDS, check=False)
