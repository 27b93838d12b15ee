"""The host: its life as others see it, in this process and as a process of its own."""

import json
import logging
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from sqlalchemy import insert, select, update

from tutti.backbone import SystemClock
from tutti.backbone.direct import fetch
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.settings import load
from tutti.chassis.connections import connection
from tutti.chassis.demo_test import Beat, Demo, build, eventually, running, temporary_folder
from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.auth import Role
from tutti.chassis.runtime.pruner import Pruner
from tutti.chassis.store import stack
from tutti.chassis.store.tables import micros
from tutti.chassis.store.taskrows import TaskState
from tutti.chassis.store.unit import Unit
from tutti.client import connect
from tutti.contracts.admin.v1 import (
    DescribeRequest,
    DoctorRequest,
    ExportRequest,
    ListDeadLettersRequest,
    RepublishEventsRequest,
    TailEventsRequest,
)
from tutti.contracts.ingest.v1 import DigestInputRequest
from tutti.platform import host as host_module
from tutti.platform.host import HostProcess

DEMO = "ingest=tutti.chassis.demo_test:build"


def test_the_address_is_announced_while_it_serves_and_only_then(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        assert demo.data_dir.endpoint() == demo.host.address
        demo.host.drain()
        assert demo.data_dir.endpoint() is None
    assert not (tmp_path / "endpoint").exists()


def test_a_service_of_its_own_waits_for_the_repair_of_its_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it ended, its container would be restarted for ever. A platform of one process ends, with the reason."""
    monkeypatch.setattr(host_module, "REPAIR_SECONDS", 0.05)
    with running(tmp_path):
        pass
    for path in tmp_path.glob("log*"):
        if path.name != "logs":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(stack.ForeignStore), running(tmp_path):
        pass
    loaded = load(environment={}, services=["ingest"])
    host = HostProcess({"ingest": build}, DataDir(tmp_path), loaded, alone="ingest")
    started = threading.Thread(target=host.start)
    started.start()
    try:
        health = tmp_path / "endpoints" / "ingest.health"
        eventually(lambda: health.exists() and stack.ADOPT in health.read_text())
        stack.adopt(host._stores)
        eventually(lambda: (tmp_path / "endpoints" / "ingest").exists())
    finally:
        started.join(30)
        host.stop()


def test_health_says_not_serving_once_it_drains(tmp_path: Path) -> None:
    with running(tmp_path) as demo, connection(demo.host.address) as plain:
        stub: Any = HealthStub(plain)
        changes = stub.Watch(HealthCheckRequest(service="ingest"))
        assert next(changes).status == HealthCheckResponse.SERVING
        demo.host.drain()
        assert next(changes).status == HealthCheckResponse.NOT_SERVING


def test_health_says_not_serving_while_the_database_is_away(tmp_path: Path) -> None:
    with running(tmp_path) as demo, connection(demo.host.address) as plain:
        stub: Any = HealthStub(plain)
        changes = stub.Watch(HealthCheckRequest())
        assert next(changes).status == HealthCheckResponse.SERVING
        demo.host.services[0].host.database.close()
        assert next(changes).status == HealthCheckResponse.NOT_SERVING
        finding = connect(tmp_path).admin.Doctor(DoctorRequest()).findings[0]
    assert (finding.check, finding.ok) == ("health", False)
    assert "closed" in finding.message


def test_everything_that_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        demo.create("ingests/a")
    with running(tmp_path), connect(tmp_path) as client:
        lines = [each.line for each in client.admin.Export(ExportRequest(service="ingest"))]
        events = list(client.admin.TailEvents(TailEventsRequest(service="ingest")))
    assert [json.loads(line)["name"] for line in lines] == ["ingests/a"]
    assert [(event.subject, event.revision, json.loads(event.payload)["name"]) for event in events] == [
        ("ingests/a", 1, "ingests/a")
    ]


def test_the_event_log_is_compacted_while_it_is_served(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        demo.create("ingests/a")
        for reason in ("one", "two", "three"):
            demo.change("ingests/a", reason)
        eventually(lambda: records(demo) == 4)
    with running(tmp_path) as demo:
        eventually(lambda: records(demo) == 1)


def test_the_settings_say_how_long_facts_inbox_and_ended_tasks_are_kept(tmp_path: Path) -> None:
    with running(tmp_path, "log.fact_retention_days=0.5", "log.inbox_retention_days=2") as demo:
        units = demo.host.services[0].host.units
        pruner = next(each for each in demo.host.services[0].parts.loops if isinstance(each, Pruner))
        now = micros(SystemClock().now())
        days = {"day": now - 24 * 3600 * 10**6, "week": now - 7 * 24 * 3600 * 10**6}

        def fill(unit: Unit) -> None:
            for age, at in days.items():
                for state in TaskState:
                    id = unit.enqueue("work", "things/a", id=f"{state.value} {age}")
                    change = update(unit.tables.tasks).where(unit.tables.tasks.c.id == id)
                    unit.tx.execute(change.values(state=state.value, made_at=at))
                row = {"group_name": "ingest", "id": age, "seen_at": at}
                unit.tx.execute(insert(unit.tables.inbox).values(row))

        units.run(fill)
        pruner.step()
        left = units.run(lambda unit: set(unit.tx.execute(select(unit.tables.tasks.c.id)).scalars()))
        seen = units.run(lambda unit: set(unit.tx.execute(select(unit.tables.inbox.c.id)).scalars()))
    assert left == {f"{state.value} day" for state in TaskState} | {"waiting week", "running week"}
    assert seen == {"day"}
    with closing(sqlite3.connect(tmp_path / "log" / "events.db")) as connection:
        found = connection.execute("SELECT retention_seconds FROM topics WHERE name LIKE 'ingest.%'")
        assert set(found) == {(12 * 3600,)}


def test_admin_describes_examines_and_tends_the_events(tmp_path: Path) -> None:
    with running(tmp_path) as demo, connect(tmp_path) as client:
        demo.create("ingests/a")
        service = client.admin.Describe(DescribeRequest()).services[0]
        assert (service.name, service.ready, service.reason) == ("ingest", True, "")
        assert service.process == f"{socket.gethostname()}:{os.getpid()}"
        assert abs(service.since.ToSeconds() - time.time()) < 600
        found = eventually(lambda: client.admin.Describe(DescribeRequest()).services[0].findings)
        assert [each.check for each in found][:4] == ["health", "event log", "blobs", "database"]
        assert all(each.ok for each in found)
        findings = client.admin.Doctor(DoctorRequest(service="ingest")).findings
        assert [finding for finding in findings if not finding.ok] == []
        assert not client.admin.ListDeadLetters(ListDeadLettersRequest()).dead_letters
        since = RepublishEventsRequest(service="ingest", validate_only=True)
        since.since.FromSeconds(0)
        assert client.admin.RepublishEvents(since).events == 1
        with pytest.raises(InvalidField, match="at most 10000"):
            list(client.admin.TailEvents(TailEventsRequest(service="ingest", limit=10_001)))
        with pytest.raises(InvalidField, match="expected one of ingest"):
            client.admin.Doctor(DoctorRequest(service="kitchen"))


def test_metrics_are_served_on_loopback(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        demo.create("ingests/a")
        address = (tmp_path / "metrics").read_text().strip()
        assert address.startswith("127.0.0.1:")
        with fetch(f"http://{address}/metrics", seconds=5) as answer:
            text = answer.read().decode()
    labels = 'code="OK",kind="call",method="/tutti.ingest.v1.IngestService/CreateIngest"'
    assert f"rpc_server_seconds_count{{{labels}}}" in text
    assert "event_loop_lag_seconds" in text
    (free,) = re.findall(r"^data_disk_free_bytes (\S+)$", text, re.MULTILINE)
    assert 0 < float(free) <= shutil.disk_usage(tmp_path).total
    assert "database_standby_missing{" not in text  # SQLite has none
    assert 'outbox_unsent_events{service="ingest"}' in text


def test_heavy_work_runs_in_another_process(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        worker = demo.ingest().DigestInput(DigestInputRequest()).input_digest
    assert int(worker) != os.getpid()


def test_temporary_files_lie_in_the_data_directory_and_are_gone_after_a_restart(tmp_path: Path) -> None:
    scratch, before = tmp_path / "scratch" / "host", tempfile.gettempdir()
    with running(tmp_path) as demo:
        assert Path(tempfile.mkdtemp()).parent == scratch
        assert demo.host.services[0].host.pool.run(temporary_folder) == str(scratch)
        assert list(scratch.iterdir())
    assert tempfile.gettempdir() == before
    with running(tmp_path):
        assert not list(scratch.iterdir())


def test_a_host_that_may_not_have_the_directory_leaves_its_scratch_alone(tmp_path: Path) -> None:
    with running(tmp_path):
        kept = Path(tempfile.mkdtemp())
        ended = subprocess.run(command(tmp_path), capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1
        assert kept.exists()


def test_a_loop_that_stands_still_is_named_in_one_line_with_the_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_BLOCKS", "1")
    with caplog.at_level(logging.DEBUG, "tutti.chassis.runtime.blocked"), running(tmp_path) as demo:
        beat = demo.host.services[0].service.loops[0]
        assert isinstance(beat, Beat)
        eventually(lambda: beat.steps > 3)
    warnings = [record.getMessage() for record in caplog.records if "stood still" in record.getMessage()]
    assert [warning for warning in warnings if re.match(r"demo beat .+ in .*\bstep \(.+:\d+\)$", warning)]


def test_a_process_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with process(tmp_path) as child:
        with connect(tmp_path, role=Role.ENGINEER) as client:
            assert client.admin.Describe(DescribeRequest()).services[0].ready
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
    assert not (tmp_path / "endpoint").exists()


def test_a_killed_process_can_be_started_again(tmp_path: Path) -> None:
    with process(tmp_path) as child:
        child.kill()
        child.wait(60)
    (tmp_path / "endpoint").unlink()
    with process(tmp_path), connect(tmp_path) as client:
        assert client.admin.Describe(DescribeRequest()).services[0].ready


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--set", "rpc.thread=3"], 2, "did you mean threads"),
        (["--set", "log.url=carrier-pigeon://x"], 2, "is not an event log"),
        (["nobody"], 2, "no such service is installed"),
        (["--config", "/nowhere/tutti.toml"], 2, "there is no such file"),
        (["--set", "rpc.listen=127.0.0.1:{taken}"], 1, "cannot listen"),
    ],
)
def test_what_keeps_a_process_from_starting_is_one_line_and_a_code(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    with running(tmp_path / "other") as other:
        taken = other.host.address.rpartition(":")[2]
        filled = [each.format(taken=taken) for each in arguments]
        ended = subprocess.run(command(tmp_path / "mine", *filled), capture_output=True, text=True, timeout=60)
    assert ended.returncode == code
    assert words in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("tutti: ")
    assert "Traceback" not in ended.stderr


def test_a_data_directory_in_use_is_one_line_and_a_code(tmp_path: Path) -> None:
    with running(tmp_path):
        ended = subprocess.run(command(tmp_path), capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert f"in use by process {os.getpid()}" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("file", "content", "code", "words"),
    [
        ("mine/version", "99", 2, "install the newer Tutti"),
        ("mine/version", "a diary", 1, "is this a data directory of Tutti"),
        ("mine", "", 1, "give a folder that you may write"),
        ("mine/tokens", "root x", 1, "chmod 600"),
    ],
)
def test_a_data_directory_that_cannot_be_used_is_one_line_and_a_code(
    tmp_path: Path, file: str, content: str, code: int, words: str
) -> None:
    (tmp_path / file).parent.mkdir(mode=0o700, exist_ok=True)
    (tmp_path / file).write_text(content)
    ended = subprocess.run(command(tmp_path / "mine"), capture_output=True, text=True, timeout=60)
    assert ended.returncode == code
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def records(demo: Demo) -> int:
    """How many the event log holds of the topics of the service."""
    log = demo.host._log
    places = [at for topic in demo.host.services[0].parts.topics for at in log.end_offsets(topic)]
    return sum(len(log.read(at, 0)) for at in places)


def command(path: Path, *arguments: str) -> list[str]:
    services = [] if arguments == ("nobody",) else [DEMO]
    return [sys.executable, "-m", "tutti.platform.main", "--data-dir", str(path), *arguments, *services]


@contextmanager
def process(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(command(path), stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: DataDir(path).endpoint() or child.poll() is not None, 30)
        yield child
    finally:
        child.kill()
        child.wait()
