"""The supervisor, with real processes: it restarts, it drains, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tutti.chassis.config.datadir import DataDir, endpoint_in
from tutti.chassis.config.exits import IN_USE
from tutti.chassis.config.sections import SupervisorSettings
from tutti.chassis.demo_test import eventually
from tutti.client import connect
from tutti.contracts.admin.v1 import DescribeRequest
from tutti.platform.heartbeatpipe import STARTS, HeartbeatPipe
from tutti.platform.processes import ProcessId, process_id
from tutti.platform.supervisor import LAST_WORDS_BYTES, ChildSpec, Supervisor

DEMO = "ingest=tutti.chassis.demo_test:build"
# Waits for SIGTERM or the end of its pipe; a child of its own in its group must not outlive it.
AGENT = """
import os, signal, subprocess, sys, time
from tutti.platform import heartbeatpipe
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
pulse = heartbeatpipe.hold(lambda: os._exit(0))
pulse.beat()
subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
while True:
    pulse.beat()
    time.sleep(0.05)
"""
HANGS = """
import os, time
from tutti.platform import heartbeatpipe
heartbeatpipe.hold(lambda: os._exit(0)).beat()
def waits_for_nobody():
    time.sleep(600)
waits_for_nobody()
"""
TALKS = r"""
import os, signal, time
from tutti.platform import heartbeatpipe
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
pulse = heartbeatpipe.hold(lambda: os._exit(0))
for number in range(10**9):
    pulse.beat()
    print(f"word {number}\n" * 1000, flush=True)
    time.sleep(0.01)
"""
# Imports for so many seconds, and works from then on.
SLOW = """
import os, signal, sys, time
from tutti.platform import heartbeatpipe
heartbeatpipe.first_word()
time.sleep(float(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
pulse = heartbeatpipe.hold(lambda: os._exit(0))
while True:
    pulse.beat()
    open(sys.argv[2], "w").close()
    time.sleep(0.05)
"""
MUTE = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


@dataclass(frozen=True)
class Platform:
    path: Path

    def children(self) -> dict[str, ProcessId]:
        """The running children, by name, as recorded."""
        try:
            record = json.loads((self.path / "processes.json").read_text())
        except FileNotFoundError:
            return {}
        return {each["name"]: ProcessId(each["pid"], each["started"]) for each in record["children"] if each["pid"]}

    def child(self, name: str) -> ProcessId:
        return eventually(lambda: self.children().get(name))

    def another(self, name: str, old: ProcessId) -> ProcessId:
        """The child that was started after `old`."""
        return eventually(lambda: found if (found := self.children().get(name)) not in (None, old) else None)

    def group(self, name: str) -> list[ProcessId]:
        """Everything in the process group of a child."""
        leader = self.child(name).pid
        pids = [int(each) for each in os.listdir("/proc") if each.isdigit()]
        return [process_id(pid) for pid in pids if _group(pid) == leader]


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


@dataclass(frozen=True)
class Process(Platform):
    process: subprocess.Popen[str]


@contextmanager
def platform(path: Path, *overrides: str, agent: str = AGENT, agents: int = 1) -> Iterator[Process]:
    command = json.dumps(["{python}", "-c", agent.replace("{", "{{").replace("}", "}}")])
    settings = [f"supervisor.agent_command={command}", "supervisor.backoff_seconds=0.05", *overrides]
    process = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "tutti.platform.supervisor",
                "--data-dir",
                str(path),
                "--agents",
                str(agents),
            ),
            *(part for each in settings for part in ("--set", each)),
            DEMO,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    made = Process(path, process)
    try:
        eventually(lambda: endpoint_in(path) or process.poll() is not None, 60)
        yield made
    finally:
        for child in made.children().values():
            child.signal_group(signal.SIGKILL)
        process.kill()
        process.communicate()


def test_told_to_stop_it_stops_everything(tmp_path: Path) -> None:
    with platform(tmp_path / "with space", agents=2) as made:
        groups = [*made.group("host"), *made.group("agent-a"), *made.group("agent-b")]
        with connect(made.path) as client:
            assert client.admin.Describe(DescribeRequest()).services[0].ready
        made.process.send_signal(signal.SIGTERM)
        assert made.process.wait(30) == 0
        assert len(groups) >= 3
        eventually(lambda: not any(each.alive() for each in groups))
        assert not (made.path / "endpoint").exists()
        assert made.children() == {}


def test_a_killed_child_is_started_again_and_the_others_are_left_alone(tmp_path: Path) -> None:
    with platform(tmp_path) as made:
        host, agent = made.child("host"), made.child("agent-a")
        os.kill(host.pid, signal.SIGKILL)
        made.another("host", host)
        eventually(lambda: endpoint_in(tmp_path), 30)
        with connect(tmp_path) as client:
            assert client.admin.Describe(DescribeRequest()).services[0].ready
        assert made.child("agent-a") == agent
        assert agent.alive()
        left = made.group("agent-a")
        os.kill(agent.pid, signal.SIGKILL)
        made.another("agent-a", agent)
        eventually(lambda: not any(each.alive() for each in left))
        record = json.loads((tmp_path / "processes.json").read_text())
        assert {each["name"]: (each["restarts"], each["exit"]) for each in record["children"]} == {
            "host": (1, "SIGKILL"),
            "agent-a": (1, "SIGKILL"),
        }


def test_a_child_that_gives_no_word_is_killed_and_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Stopped by a signal, hung in its loop, or silent from the start; who is well is left alone."""
    programs = {"well": AGENT, "stopped": AGENT, "hung": HANGS, "mute": MUTE}
    specs = [ChildSpec(name, (sys.executable, "-c", program)) for name, program in programs.items()]
    settings = SupervisorSettings(silence_seconds=2.0, first_word_seconds=5.0, backoff_seconds=0.05, drain_seconds=1.0)
    supervisor = Supervisor(DataDir(tmp_path), specs, settings)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    made = Platform(tmp_path)
    try:
        first = {name: made.child(name) for name in programs}
        left = eventually(lambda: group if len(group := made.group("stopped")) == 2 else None)
        first["stopped"].send(signal.SIGSTOP)
        for name in ("stopped", "hung", "mute"):
            made.another(name, first[name])
        eventually(lambda: not any(each.alive() for each in left))
        assert made.child("well") == first["well"]
        record = json.loads((tmp_path / "processes.json").read_text())
    finally:
        supervisor.stop()
        thread.join()
    assert {each["name"]: each["exit"] for each in record["children"]} == {
        "well": "",
        "stopped": "no word for 2 s, stopped by a signal",
        "hung": "no word for 2 s",
        "mute": "no word for 5 s",
    }
    assert f"hung (process {first['hung'].pid}): no word for 2 s; killed and restarted" in caplog.text
    assert "in waits_for_nobody" in (tmp_path / "logs" / "hung.log").read_text()


def test_a_child_that_starts_more_slowly_than_its_limit_gets_twice_the_time_and_lives(tmp_path: Path) -> None:
    """Its imports take longer than the first limit, and less than the next ones."""
    works = tmp_path / "works"
    spec = ChildSpec("slow", (sys.executable, "-c", SLOW, "1.5", str(works)))
    settings = SupervisorSettings(first_word_seconds=1.0, silence_seconds=1.0, backoff_seconds=0.01, drain_seconds=5.0)
    supervisor = Supervisor(DataDir(tmp_path), [spec], settings)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        eventually(works.exists, 60)
    finally:
        supervisor.stop()
        thread.join(30)
    (child,) = json.loads((tmp_path / "processes.json").read_text())["children"]
    assert child["restarts"] >= 1
    assert child["exit"].startswith("no word for ")


def test_a_first_word_before_long_imports_is_heard_and_is_no_heartbeat() -> None:
    """A process whose first line is that of every program of Tutti."""
    pipe = HeartbeatPipe()
    program = "from tutti.platform.heartbeatpipe import first_word; first_word(); import sys; sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        env=pipe.environment(),
        pass_fds=[pipe.descriptor],
    )
    try:
        assert eventually(pipe.heard) == STARTS
    finally:
        process.communicate()
        pipe.close()


@pytest.mark.parametrize("module", ["tutti.scheduler", "tutti.trainer", "tutti.platform.entry"])
def test_a_program_gives_its_first_word_before_it_imports_what_takes_long(module: str) -> None:
    """Such as gRPC and SQLAlchemy; here none of them can be imported."""
    pipe = HeartbeatPipe()
    program = (
        "import runpy, sys\n"
        "sys.modules.update(dict.fromkeys(['grpc', 'sqlalchemy', 'google.protobuf']))\n"
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=pipe.environment(),
        pass_fds=[pipe.descriptor],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, pipe.heard()) == (1, STARTS)
    pipe.close()


def test_children_of_a_killed_supervisor_stop(tmp_path: Path) -> None:
    with platform(tmp_path) as made:
        children = [made.child("host"), made.child("agent-a")]
        made.process.kill()
        made.process.wait()
        eventually(lambda: not any(each.alive() for each in children), 30)


def test_the_next_supervisor_ends_who_ignored_the_end_of_the_first(tmp_path: Path) -> None:
    with platform(tmp_path, agent=STUBBORN) as first:
        stubborn = first.child("agent-a")
        first.process.kill()
        first.process.wait()
        eventually(lambda: not first.child("host").alive(), 30)
        assert stubborn.alive()
        with platform(tmp_path, "supervisor.drain_seconds=0.5") as second:
            assert not stubborn.alive()
            assert second.child("agent-a") != stubborn


def test_who_ignores_the_request_to_stop_is_killed_at_the_deadline(tmp_path: Path) -> None:
    with platform(tmp_path, "supervisor.drain_seconds=0.5", agent=STUBBORN) as made:
        stubborn = made.child("agent-a")
        made.process.send_signal(signal.SIGTERM)
        assert made.process.wait(30) == 0
        assert not stubborn.alive()


def test_a_second_supervisor_is_refused(tmp_path: Path) -> None:
    with platform(tmp_path) as first, platform(tmp_path) as second:
        assert second.process.wait(30) == IN_USE
        assert second.process.stderr is not None
        assert f"in use by process {first.process.pid} (tutti up)" in second.process.stderr.read()
        assert first.child("host").alive()


@pytest.mark.parametrize(
    ("override", "code", "words"),
    [
        ("rpc.listen=203.0.113.1:1", 1, "tutti: cannot listen at 203.0.113.1:1"),
        ("rpc.listenn=1", 2, "did you mean listen"),
    ],
)
def test_a_host_that_cannot_start_ends_the_platform_with_its_words(
    tmp_path: Path, override: str, code: int, words: str
) -> None:
    with platform(tmp_path, override) as made:
        assert made.process.wait(30) == code
        assert made.process.stderr is not None
        said = made.process.stderr.read()
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "tutti: host ended with exit code 1; look into "),
        ("tutti: the new story", "tutti: the new story"),
        ("tutti: early\n" + "x" * LAST_WORDS_BYTES, "tutti: host ended with exit code 1; look into "),
    ],
)
def test_the_last_words_are_those_since_the_last_start_and_near_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, words: str
) -> None:
    data_dir = DataDir(tmp_path)
    (tmp_path / "logs" / "host.log").write_text("tutti: an old story\n")
    program = (sys.executable, "-S", "-c", f"import sys; sys.stderr.write({said!r}); sys.exit(1)")
    assert Supervisor(data_dir, [ChildSpec("host", program)], SupervisorSettings()).run() == 1
    assert capsys.readouterr().err.startswith(words)


def test_the_log_of_a_child_that_goes_on_is_rotated(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    writes, put_aside = (sys.executable, "-c", TALKS), tmp_path / "logs" / "talks.log.1"
    supervisor = Supervisor(data_dir, [ChildSpec("talks", writes)], SupervisorSettings(), log_bytes=50_000)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        eventually(put_aside.exists)
        first = put_aside.read_text()
        eventually(lambda: put_aside.read_text() not in ("", first))
        record = json.loads((tmp_path / "processes.json").read_text())
        assert [child["restarts"] for child in record["children"]] == [0]
    finally:
        supervisor.stop()
        thread.join(30)
    assert first.startswith("word 0\n")


def test_the_supervisor_imports_no_grpc() -> None:
    program = (
        "import sys, tutti.platform.supervisor; sys.exit(sum(name in sys.modules for name in ('grpc', 'sqlalchemy')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_log_is_json_lines_with_trace_ids(tmp_path: Path) -> None:
    program = (
        "import logging\nfrom tutti.chassis import telemetry\nfrom tutti.platform import logs\n"
        "logs.configure('demo')\n"
        "with telemetry.span('work') as span: logging.warning('hello')\n"
        "print(format(span.get_span_context().trace_id, '032x'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    line = json.loads(done.stderr)
    assert (line["message"], line["level"], line["service"]) == ("hello", "warning", "demo")
    assert line["trace_id"] == done.stdout.strip()
