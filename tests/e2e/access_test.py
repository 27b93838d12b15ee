"""Commands while no platform is up: `tutti run` starts one; others name the command that does."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tests.e2e.command import TINY, platform, run_process, start, tiny, tutti
from tests.faults.processes import family, until
from tutti.chassis.config.datadir import tokens_in
from tutti.chassis.identity.auth import Role
from tutti.client import Problem, connect
from tutti.client.resources import list_all


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a platform that was up and is down; its path has a space."""
    folder = tmp_path_factory.mktemp("stopped") / "data dir"
    with platform(folder, agents=0):
        pass
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("runs", "ls"),
        ("runs", "again", "runs/none", "--dry-run"),
        ("documents", "rejected"),
        ("trace", "--text", "a"),
        ("sample", "checkpoints/c", "--prompt", "Once"),
        ("recipes", "plan", TINY),
        ("run", TINY, "--dry-run"),
    ],
)
def test_only_a_run_starts_a_platform_and_other_commands_name_the_one_that_does(
    command: tuple[str | Path, ...], stopped: Path
) -> None:
    result = tutti(*command, "--data-dir", stopped)
    assert result.code == 3
    assert f"`tutti up --detach --data-dir '{stopped}'`" in result.err
    assert family(stopped) == []


def test_a_recipe_is_checked_beside_a_stopped_platform(stopped: Path, pages: Path) -> None:
    """It is asked for only if the recipe names a resource that may be in it."""
    asked = ("recipes", "check", TINY, "--set", f"input.path={pages}", "--data-dir", stopped)
    assert tutti(*asked).code == 0
    assert tutti(*asked, "--set", "tokenizer.of=datasets/none").code == 3


def test_runs_that_start_together_share_the_platform_of_the_first(tmp_path: Path, pages: Path) -> None:
    """In a directory that nobody made yet. One of the others is so slow that its run ends while it is stopped."""
    data_dir = tmp_path / "data"
    least = ("input.limit=5", "train.steps=2")
    together = [start(*tiny(data_dir, pages, *least, f"train.seed={seed}")) for seed in range(3)]
    until(lambda: recorded(data_dir) == 3, seconds=240, what="a record of all runs")
    parent = psutil.Process(json.loads((data_dir / "processes.json").read_text())["supervisor"]["pid"]).ppid()
    (first,) = (each for each in together if each.pid == parent)
    slow = next(each for each in together if each.pid != parent)
    slow.send_signal(signal.SIGSTOP)
    assert first.stderr is not None
    said = next((line for line in first.stderr if "stays up for another command" in line), "")
    slow.send_signal(signal.SIGCONT)
    told = [each.communicate(timeout=400) for each in together]
    assert [each.returncode for each in together] == [0, 0, 0], [err for _, err in told]
    assert said
    assert len({json.loads(out)["run"]["name"] for out, _ in told}) == 3
    assert family(data_dir) == []


def recorded(data_dir: Path) -> int:
    """How many runs the platform has; 0 while none is up."""
    try:
        with connect(data_dir=data_dir) as client:
            return sum(1 for _ in list_all(client, "runs"))
    except Problem:
        return 0


@pytest.mark.parametrize(
    "command",
    [
        ("runs", "ls"),
        ("sample", "checkpoints/c", "--prompt", "Once"),
        ("checkpoints", "export", "checkpoints/c", "--to", "model"),
        ("run", TINY, "--detach"),
        ("runs", "again", "runs/r"),
        ("runs", "again", "runs/r", "--dry-run"),
    ],
)
def test_what_needs_something_that_was_made_starts_nothing_where_there_was_no_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Sequence[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tutti(*command, "--data-dir", tmp_path / "none")
    assert result.code == 3
    assert list(tmp_path.iterdir()) == []


def test_what_is_asked_about_a_recipe_leaves_no_data_directory_behind(tmp_path: Path, pages: Path) -> None:
    asked = (TINY, "--set", f"input.path={pages}", "--data-dir", tmp_path / "none" / "below")
    checked, planned, tried = (
        tutti(*verb, *asked) for verb in (("recipes", "check"), ("recipes", "plan"), ("run", "--dry-run"))
    )
    assert (checked.code, planned.code, tried.code) == (0, 0, 0), checked.err + planned.err + tried.err
    assert "input: 20 files" in planned.out
    assert "are free" in planned.out
    assert "ingest" in tried.out
    assert list(tmp_path.iterdir()) == []


def test_up_says_what_stops_it_and_down_refuses_a_directory_that_is_not_there(stopped: Path) -> None:
    up = run_process("up", "--detach", "--agents", "0", "--data-dir", stopped)  # its supervisor is no child of ours
    assert f"`tutti down --data-dir '{stopped}'` stops it" in up.err
    assert tutti("down", "--data-dir", stopped).code == 0
    missing = tutti("down", "--data-dir", stopped / "none")
    assert (missing.code, missing.out) == (1, "")
    assert "does not exist, so no platform runs there" in missing.err


def test_agents_that_left_with_the_platform_are_back_or_named_when_up_returns(stopped: Path) -> None:
    def nodes() -> dict[str, str]:
        return {
            each["name"]: each["state"] for each in tutti("nodes", "ls", "-o", "json", "--data-dir", stopped).json()
        }

    assert run_process("up", "--detach", "--data-dir", stopped).code == 0
    until(lambda: nodes().get("nodes/a") == "ready", seconds=120, what="the agent of nodes/a")
    assert tutti("down", "--data-dir", stopped).code == 0
    up = run_process("up", "--detach", "--data-dir", stopped)
    seen = nodes()["nodes/a"]
    assert tutti("down", "--data-dir", stopped).code == 0
    assert seen == "ready" or "still starting: nodes/a" in up.err


def test_a_run_that_nobody_looks_on_at_is_named_as_in_its_summary(served: Path, pages: Path) -> None:
    began = tutti(*tiny(served, pages), "--detach")
    assert began.code == 0, began.err
    name = began.json()["run"]["name"]
    again = tutti("runs", "again", name, "--detach", "-o", "json", "--data-dir", served)
    cancelled = tutti("runs", "cancel", name, "--data-dir", served)
    assert again.json()["run"]["name"] == name
    assert cancelled.code == 0, cancelled.err


def test_a_recipe_runs_at_an_address_on_a_platform_that_goes_on(served: Path, pages: Path, tmp_path: Path) -> None:
    where = {
        "TUTTI_ADDRESS": (served / "endpoint").read_text().strip(),
        "TUTTI_TOKEN": tokens_in(served).of(Role.OPERATOR),
    }
    wanted = ("--set", f"input.path={pages}", "--set", "input.limit=5", "--set", "train.steps=2")
    planned = tutti("run", TINY, *wanted, "--dry-run", "-o", "json", extra=where)
    assert planned.code == 0, planned.err
    ran = tutti("run", TINY, *wanted, "-o", "json", extra=where)
    assert ran.code == 0, ran.err
    name = ran.json()["run"]["name"]
    shown = tutti("runs", "show", name, "--data-dir", served, "-o", "json")
    assert shown.code == 0, shown.err
    again = tutti("runs", "again", name, "--dry-run", "-o", "json", extra=where)
    assert all(stage["reused"] for stage in again.json()), again.out
    nobody = tutti("run", TINY, *wanted, "--address", "127.0.0.1:1", extra={**where, "TUTTI_ADDRESS": ""})
    assert nobody.code == 3
    assert "127.0.0.1:1" in nobody.err
