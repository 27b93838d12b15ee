"""The health file: one line with the reason why a process does not serve."""

from pathlib import Path

from tutti.chassis.runtime.healthfile import HealthFile, health_path


def test_a_reason_is_one_line_and_the_file_of_a_process_that_serves_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "health"
    file = HealthFile(path)
    file.write("database: away\nfor now")
    assert path.read_text() == "database: away for now\n"
    file.write("")
    assert path.read_text() == "\n"


def test_each_service_that_runs_alone_has_a_file_of_its_own(tmp_path: Path) -> None:
    paths = {health_path(tmp_path, part) for part in (None, "ingest", "agent-a")}
    assert len(paths) == 3
