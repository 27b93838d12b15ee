"""The parts of the trial of docker-compose.yml that need no engine: writes that are read back, and its goals."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from tests.e2e.command import platform
from tests.faults.processes import until
from tutti.chassis.config.datadir import tokens_in
from tutti.chassis.identity.auth import Role


@pytest.fixture
def trial() -> ModuleType:
    from tests.trials.docker import trial

    return trial


def test_a_write_that_was_acknowledged_and_is_gone_is_found(trial: ModuleType, tmp_path: Path) -> None:
    from tests.trials.docker.engine import Engine

    data_dir = tmp_path / "data"
    with platform(data_dir, agents=0):
        token = tokens_in(data_dir).of(Role.OPERATOR)
        project = trial.Project(Engine("docker", (), {}, own=False), "trial", _port(data_dir), tmp_path, token=token)
        with trial.Writes(project) as writes:
            until(lambda: len(writes) > 1, seconds=30, what="two writes")
        writes.read_back()
    with closing(sqlite3.connect(data_dir / "db" / "access.db")) as database, database:
        query = "DELETE FROM tokens WHERE digest = (SELECT min(digest) FROM tokens WHERE user = 'nodes/trial')"
        assert database.execute(query).rowcount == 1
    with platform(data_dir, agents=0):
        project.port = _port(data_dir)
        with pytest.raises(trial.TrialError, match="acknowledged writes 1 are missing"):
            writes.read_back()


@pytest.mark.parametrize(
    ("measure", "goal"),
    [
        (lambda figures: figures.cold(30.1, 17, 60.1), "from nothing to healthy: 60.1 s of CPU time"),
        (lambda figures: figures.memory({"kafka": 800.0, "postgres": 634.0}), "all containers at rest: 1,434.0 MiB"),
        (lambda figures: figures.sizes(_sizes(651)), "the image control over its base: 451.0 MB"),
    ],
)
def test_a_goal_that_was_missed_is_told_and_fails_a_strict_trial(
    trial: ModuleType, measure: Callable[[object], None], goal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = trial.Figures([])
    figures.cold(40.0, 17, 28.0)
    figures.memory({"kafka": 800.0, "postgres": 633.0})
    figures.sizes(_sizes(650))
    figures.tell_goals(strict=True)
    measure(figures)
    capsys.readouterr()
    figures.tell_goals(strict=False)
    assert goal in capsys.readouterr().out
    with pytest.raises(trial.TrialError, match=rf"load .* at the start\): {goal}, the goal is at most"):
        figures.tell_goals(strict=True)


def test_the_client_of_the_trial_gives_containers_a_proxy_and_keeps_its_configuration(
    trial: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.trials.docker.engine import Engine

    own = tmp_path / "own"
    (own / "cli-plugins").mkdir(parents=True)
    (own / "config.json").write_text('{"auths": {}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(own))
    client = trial.proxied(Engine("docker", (), {"DOCKER_HOST": "unix:///x"}, own=False), tmp_path / "trial")
    folder = Path(client.environment["DOCKER_CONFIG"])
    values = json.loads((folder / "config.json").read_text())
    assert (values["auths"], values["proxies"]["default"]["httpProxy"]) == ({}, trial.NOWHERE)
    assert (folder / "cli-plugins").is_dir()
    assert client.environment["DOCKER_HOST"] == "unix:///x"
    assert "proxies" not in json.loads((own / "config.json").read_text())


def _sizes(control: float) -> dict[str, float]:
    return {"python:3.11-slim-bookworm": 200.0, "tutti/control:latest": control, "tutti/compute:latest": 6000.0}


def _port(data_dir: Path) -> int:
    return int((data_dir / "endpoint").read_text().strip().rpartition(":")[2])
