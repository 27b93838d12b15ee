"""The health file: what it says, and that silence is no health."""

import os
import time
from pathlib import Path

from tutti.chassis.runtime.healthfile import STALE_SECONDS, HealthFile, health_path, trouble


def test_a_process_is_healthy_while_it_says_so(tmp_path: Path) -> None:
    path = tmp_path / "health"
    assert trouble(path) == "it has not started yet"
    file = HealthFile(path)
    file.write("database: away\nfor now")
    assert trouble(path) == "database: away for now"
    file.write("")
    assert trouble(path) == ""


def test_a_process_that_hangs_is_not_healthy_whatever_it_said(tmp_path: Path) -> None:
    HealthFile(tmp_path / "health").write("")
    long_ago = time.time() - STALE_SECONDS - 5
    os.utime(tmp_path / "health", (long_ago, long_ago))
    assert trouble(tmp_path / "health").startswith("no word for 2")


def test_each_service_that_runs_alone_has_a_file_of_its_own(tmp_path: Path) -> None:
    paths = {health_path(tmp_path, part) for part in (None, "ingest", "agent-a")}
    assert len(paths) == 3
