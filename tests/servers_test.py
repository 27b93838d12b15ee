"""The script that runs real servers without Docker."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.faults.processes import until

SCRIPT = Path(__file__).parents[1] / "deploy" / "local" / "servers.py"


def ask(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=400, check=False)


def status(folder: Path, name: str) -> dict[str, Any]:
    (found,) = json.loads(ask("status", name, "--dir", folder, "-o", "json").stdout)
    return dict(found)


def test_up_is_idempotent_and_restart_keeps_url_and_secrets(own_server: Callable[[str], Any]) -> None:
    server = own_server("s3")
    first = status(server.folder, "s3")
    assert server.up() == first["url"]
    assert status(server.folder, "s3")["pid"] == first["pid"]
    assert server.restart() == first["url"]
    assert status(server.folder, "s3")["pid"] != first["pid"]
    assert (server.folder / "s3" / "server.json").stat().st_mode & 0o777 == 0o600


def test_a_killed_server_is_seen_and_started_again(own_server: Callable[[str], Any]) -> None:
    server = own_server("postgres")
    url = server.up()
    server.kill()
    assert server.up() == url
    assert status(server.folder, "postgres")["state"] == "up"


def test_a_folder_that_was_removed_by_hand_is_made_anew(own_server: Callable[[str], Any]) -> None:
    server = own_server("postgres")
    server.kill()
    shutil.rmtree(server.folder)
    with psycopg.connect(server.up()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_down_stops_by_pid_and_start_time(own_server: Callable[[str], Any]) -> None:
    server = own_server("s3")
    ours = status(server.folder, "s3")["pid"]
    assert ask("down", "s3", "--dir", server.folder).returncode == 0
    assert not psutil.pid_exists(ours) or psutil.Process(ours).status() == psutil.STATUS_ZOMBIE
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        record = {"pid": stranger.pid, "started": psutil.Process(stranger.pid).create_time() - 100}
        (server.folder / "s3" / "pid.json").write_text(json.dumps(record))
        assert status(server.folder, "s3")["state"] == "down"
        assert ask("down", "s3", "--dir", server.folder).returncode == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_that_recovers_for_longer_than_the_deadline_is_left_alone(
    own_server: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own_server("postgres").folder
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    servers = import_module("servers")
    monkeypatch.setattr(servers, "READY_SECONDS", 2.0)
    monkeypatch.setattr(servers, "LOOK_SECONDS", 0.1)
    stack, log = servers.Stack(folder), folder / "postgres" / "log"
    data = Path(psutil.Process(stack.process("postgres").pid).cwd())
    stack.down(["postgres"])
    # It goes on recovering until it is promoted.
    (data / "standby.signal").touch()
    with open(data / "postgresql.auto.conf", "a") as configuration:
        configuration.write("hot_standby = off\n")
    stack._begin("postgres")  # as by a command that was killed while it waited
    process = stack.process("postgres")
    settings = json.loads((folder / "postgres" / "server.json").read_text())
    until(lambda: import_module("postgres").Postgres().recovers(settings), seconds=60, what="a server that recovers")
    starting = threading.Thread(target=stack.up, args=(["postgres"],), kwargs={"install": False})
    starting.start()
    # Each question is 30 ms after the one before, so these take longer than the deadline.
    until(lambda: log.read_text().count("not accepting connections") >= 100, seconds=60, what="100 refusals")
    (data / "promote").touch()
    os.kill(process.pid, signal.SIGUSR1)
    starting.join(60)
    assert stack.process("postgres") == process
    assert status(folder, "postgres")["state"] == "up"


def test_a_server_that_missed_the_deadline_has_twice_the_time_at_its_next_start(
    own_server: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own_server("s3").folder
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    servers = import_module("servers")
    stack, started = servers.Stack(folder), list[float]()
    begin, is_ready = servers.Gateway.start, servers.Gateway.is_ready

    def start(gateway: Any, *given: Any) -> Any:
        started.append(time.monotonic())
        return begin(gateway, *given)

    def answers_late(gateway: Any, settings: dict[str, str]) -> bool:
        """As on a busy machine."""
        return bool(started) and time.monotonic() - started[-1] > 1.0 and is_ready(gateway, settings)

    monkeypatch.setattr(servers, "READY_SECONDS", 0.3)
    monkeypatch.setattr(servers, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(servers.Gateway, "start", start)
    monkeypatch.setattr(servers.Gateway, "is_ready", answers_late)
    stack.down(["s3"])
    stack.up(["s3"], install=False)
    assert 1 < len(started) <= servers.ATTEMPTS
    assert stack.is_alive("s3")


def test_people_are_not_shown_secrets(own_server: Callable[[str], Any]) -> None:
    server = own_server("s3")
    secret = json.loads((server.folder / "s3" / "server.json").read_text())["secret"]
    shown = ask("status", "--dir", server.folder)
    assert "***" in shown.stdout
    assert secret not in shown.stdout


@pytest.mark.parametrize("words", [("up", "redis"), ("sideways",), ()])
def test_misuse_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    assert ask(*words, "--dir", tmp_path).returncode == 2


def test_a_folder_of_a_version_that_had_two_databases_is_refused_with_what_to_do(tmp_path: Path) -> None:
    ports = {"brokers": [1, 2, 3], "controllers": [4, 5, 6], "databases": [7, 8]}
    words = {"broker_password": "b", "database_password": "d", "standby_password": "s", "listen": "127.0.0.1"}
    (tmp_path / "layout.json").write_text(json.dumps({**ports, **words}))
    for command in (["status"], ["up", "--replicated"], ["down"]):
        done = ask(*command, "--dir", tmp_path)
        assert (done.returncode, "restore it" in done.stderr) == (1, True), done.stderr
        assert "Traceback" not in done.stderr
