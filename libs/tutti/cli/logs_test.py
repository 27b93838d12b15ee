"""`tutti logs`: the lines about a resource, of a platform that is up, of one that is not, and of one elsewhere."""

import io
import json
from pathlib import Path

import pytest

from tutti.chassis.config.datadir import DataDir
from tutti.cli.administration_test import NOBODY, tutti
from tutti.cli.loglines_test import add, line
from tutti.cli.logs import of_job


@pytest.fixture
def stopped(tmp_path: Path) -> DataDir:
    """A data directory that nobody serves; its host wrote 150 lines about a run."""
    (tmp_path / "logs").mkdir()
    add(tmp_path / "logs" / "host.log", *(line(at % 60, f"runs/a step {at}") for at in range(150)), line(0, "runs/b"))
    return DataDir(tmp_path)


def test_the_newest_lines_about_a_resource_are_shown(stopped: DataDir, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = tutti(stopped, capsys, "logs", "runs/a")
    assert (code, out.count("runs/a step"), out.count("\n")) == (0, 100, 100)
    assert "nobody serves" in err
    assert tutti(stopped, capsys, "logs", "runs/a", "-n", "0")[1].count("\n") == 150
    _, out, _ = tutti(stopped, capsys, "logs", "-n", "2", "-o", "json")
    assert [json.loads(each)["level"] for each in out.splitlines()] == ["info", "info"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("runs/none",), 0, "no line names runs/none"),
        (("a",), 2, "expected the name of a resource"),
        (("--since", "soon"), 2, "expected 30s, 10m"),
        (("--address", NOBODY), 2, "run `tutti logs` there; in containers, run `docker compose logs --timestamps |"),
        (("runs/a", "jobs/b"), 2, "expected the name of one resource, got runs/a jobs/b"),
    ],
)
def test_what_cannot_be_shown_is_said(
    arguments: tuple[str, ...], code: int, words: str, stopped: DataDir, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, out, err = tutti(stopped, capsys, "logs", *arguments)
    assert (ended, out) == (code, "")
    assert words in err


def test_lines_of_containers_are_read_from_the_standard_input(
    stopped: DataDir, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (line(2, "runs/a is late"), "a stack\n", "up\n", line(1, "runs/a"))
    containers = ("dedup-1", "dedup-1", "kafka-1", "pipeline-1")
    printed = "".join(f"{name}  | {each}" for name, each in zip(containers, lines, strict=True))

    def piped(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
        return tutti(stopped, capsys, "logs", *arguments)

    code, out, err = piped("runs/a", "-")
    assert (code, "nobody serves" in err) == (0, True)
    assert [each.split()[-1] for each in out.splitlines()] == ["runs/a", "late", "stack"]
    assert [each.split()[-1] for each in piped("-", "-f")[1].splitlines()] == ["late", "stack", "up", "runs/a"]
    code, out, err = piped("jobs/none", "-")
    assert (code, out, "no line names jobs/none" in err) == (0, "", True)


def test_a_folder_that_no_platform_has_served_has_no_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    never = DataDir(tmp_path)
    (tmp_path / "logs").rmdir()
    code, _, err = tutti(never, capsys, "logs")
    assert code == 1
    assert "there are no logs" in err


def test_to_a_job_belong_its_checkpoints_and_topologies() -> None:
    assert of_job("jobs/a") == ["checkpoints/a", "topologies/a"]
    assert of_job("dedups/a") == []
