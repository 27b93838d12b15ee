"""Rounds of faults on a stack, drawn by seed: during a run, servers, services, agents and ranks are killed, stopped or
get SIGTERM, Kafka gets records that nobody can read, and Postgres has no connection left. The run ends by itself with
the states of an embedded platform.
Then each server hangs for minutes of a training, and a byte of each database flips.

`ROUNDS` and `LONG_SECONDS` in the environment replace the full numbers.
"""

import json
import os
import random
import re
import signal
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import kafka
import psutil
import psycopg
import pytest

from tests.e2e.command import checkpoints, tiny, tutti
from tests.e2e.flips import flip_page
from tests.faults.part_test import ranks
from tests.faults.processes import until
from tests.scale import SOAK, scale
from tests.stack.conftest import brought_up, local, processes
from tests.stack.observed import hanging, trains
from tutti.backbone.direct import fetch
from tutti.backbone.kafka.brokers import Brokers
from tutti.chassis.config.settings import installed_services
from tutti.chassis.events.catalog import EventType, every_event

pytestmark = [
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not SOAK, reason="a soak row; tests/stack/stack_test.py has three deaths and a hang"),
]
ROUNDS = int(os.environ.get("ROUNDS", "40"))
LONG_SECONDS = float(os.environ.get("LONG_SECONDS", "300"))
SERVERS = ("kafka", "postgres", "s3")
AGENTS = ("agent-a", "agent-b")
RANK, RUBBISH = "rank", "rubbish/1"
HANGS, WEIGHTS = (2.0, 5.0, 25.0, 70.0), (45, 40, 12, 3)
FULL_SECONDS = (5.0, 25.0)
LATEST_SECONDS = 8.0
HEALED_SECONDS = 180.0


class How(StrEnum):
    """What happens to a process or a server."""

    KILLED = "is killed"
    ENDED = "gets SIGTERM"
    HANGS = "hangs"
    RUBBISH = "is sent rubbish"
    FULL = "has no connection left"


@dataclass(frozen=True)
class Fault:
    """It begins `after` seconds from the start of a run, and lasts for `seconds`."""

    after: float
    name: str
    how: How
    seconds: float = 0.0

    def __str__(self) -> str:
        lasting = f" for {self.seconds:g} s" if self.seconds else ""
        return f"{self.name} {self.how.value}{lasting} after {self.after:.1f} s"


def fault(drawn: random.Random) -> Fault:
    after, kind = drawn.uniform(0, LATEST_SECONDS), drawn.random()
    if kind < 0.1:
        return Fault(after, "kafka", How.RUBBISH)
    if kind < 0.2:
        return Fault(after, "postgres", How.FULL, drawn.choice(FULL_SECONDS))
    others = (*installed_services(), *AGENTS, RANK)
    if kind < 0.35:
        return Fault(after, drawn.choice(others), How.ENDED)
    name = drawn.choice((*SERVERS, *SERVERS, *others))
    if kind < 0.65:
        return Fault(after, name, How.HANGS, drawn.choices(HANGS, WEIGHTS)[0])
    return Fault(after, name, How.KILLED)


def faults(seed: int) -> list[Fault]:
    """One to three faults, the first first; equal for equal seeds."""
    drawn = random.Random(seed)
    return sorted((fault(drawn) for _ in range(drawn.randint(1, 3))), key=lambda each: each.after)


def overrides(seed: int) -> tuple[str, ...]:
    """A training that no other round has, over one of fifteen selections of pages."""
    return f"input.limit={5 + seed % 15}", f"train.steps={20 + seed}", f"train.ranks={1 + seed % 3}"


def pid_of(stack: Path, name: str) -> int:
    """The process that has this name now; 0 where none does."""
    if name == RANK:
        return next((each.pid for each in ranks(stack)), 0)
    return next((each["pid"] for each in processes(stack) if each["what"] == name), 0)


def administrator(stack: Path, server: str) -> str:
    """The URL of a server with the credentials of its administrator."""
    told = json.loads(local("servers.py", "status", "-o", "json", "--dir", stack / "servers").out)
    return next(str(each["url"]) for each in told if each["name"] == server)


def rubbish(kind: EventType) -> list[tuple[bytes | None, bytes | None, Mapping[str, bytes]]]:
    """Key, value and headers of records that nobody can read as an event of this type."""
    headers = {
        "ce_id": f"rubbish-{uuid.uuid4()}".encode(),
        "ce_type": kind.type.encode(),
        "ce_subject": RUBBISH.encode(),
        "ce_time": b"2026-01-01T00:00:00+00:00",
        "revision": b"1",
    }
    other = {**headers, "ce_id": headers["ce_id"] + b"-other"}
    return [(None, b"", {}), (RUBBISH.encode(), b"\xff\xff", headers), (b"\xff", None, other)]


def send_rubbish(url: str) -> None:
    """Append it to the topic of every event."""
    with closing(kafka.KafkaProducer(**Brokers.parse(url).settings())) as producer:
        for kind in every_event():
            for key, value, headers in rubbish(kind):
                producer.send(kind.topic, value, key, list(headers.items()), 0).get(timeout=60)


def take_every_connection(url: str, seconds: float) -> None:
    """Open connections to Postgres until it refuses one; close them after some seconds."""
    with ExitStack() as held:
        with suppress(psycopg.OperationalError):
            while True:
                held.enter_context(psycopg.connect(url))
        threading.Event().wait(seconds)


def cause(stack: Path, fault: Fault) -> None:
    """Carry a fault out to its end; of a process that hangs its children hang too."""
    if fault.how is How.RUBBISH:
        return send_rubbish(administrator(stack, "kafka"))
    if fault.how is How.FULL:
        return take_every_connection(administrator(stack, "postgres"), fault.seconds)
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        process = psutil.Process(pid_of(stack, fault.name) or -1)
        if fault.how is How.HANGS:
            with hanging(process):
                threading.Event().wait(fault.seconds)
        else:
            process.send_signal(signal.SIGKILL if fault.how is How.KILLED else signal.SIGTERM)


def discard_rubbish(stack: Path) -> None:
    """Settle the dead letters of what was sent, and find no other."""
    listed = tutti("events", "dead", "ls", "--data-dir", stack, "-o", "json")
    assert listed.code == 0, listed.err
    for letter in listed.json():
        assert letter["subject"] in (RUBBISH, "", r"\xff"), letter
        words = ("events", "dead", "settle", letter["service"], letter["event_id"], "--discard", "--data-dir", stack)
        assert (settled := tutti(*words)).code == 0, settled.err


def whole(stack: Path) -> bool:
    """Every process of the stack runs, and every service answers."""
    kept = {each["what"]: each["pid"] for each in processes(stack) if each["restarts"] is not None}
    if not {*SERVERS, *installed_services(), *AGENTS} <= {name for name, pid in kept.items() if pid}:
        return False
    return tutti("status", "--data-dir", stack).code == 0


def test_runs_end_by_themselves_with_equal_states_whatever_dies_or_hangs(
    stack: Path, pages: Path, embedded: Callable[..., Any]
) -> None:
    for seed in range(min(ROUNDS, scale(test=0, soak=40))):
        drawn = faults(seed)
        print(f"round of seed {seed}: faults: {'; '.join(map(str, drawn))}")
        begun = tutti(*tiny(stack, pages, *overrides(seed), output=("--detach",)))
        assert begun.code == 0, begun.err
        timers = [threading.Timer(fault.after, cause, (stack, fault)) for fault in drawn]
        for timer in timers:
            timer.start()
        result = tutti("runs", "follow", begun.out.strip(), "--data-dir", stack, "-o", "json", seconds=600)
        for timer in timers:
            timer.join()
        assert result.code == 0, f"seed {seed}: {result.err}"
        assert checkpoints(result.json()) == checkpoints(embedded(*overrides(seed))), f"seed {seed}"
        if any(each.how is How.RUBBISH for each in drawn):
            discard_rubbish(stack)
        until(lambda: whole(stack), seconds=HEALED_SECONDS, what=f"the whole stack after seed {seed}")
    ours = tutti("export", "--canonical", "--data-dir", stack)
    theirs = tutti("export", "--canonical", "--data-dir", embedded.data_dir)  # type: ignore[attr-defined]
    assert (ours.code, theirs.code) == (0, 0), ours.err + theirs.err
    assert ours.out == theirs.out  # nothing that was acknowledged is lost, and no effect doubled


def steps_of(stack: Path) -> int:
    """Steps that ranks of any agent crossed since it began, as the agents tell."""
    found = 0
    for agent in AGENTS:
        address = (stack / "endpoints" / f"{agent}.metrics").read_text().strip()
        with fetch(f"http://{address}/metrics", seconds=10) as answer:
            told = answer.read().decode()
        found += sum(
            int(float(each)) for each in re.findall(r"^step_time_seconds_count\{.*\} (\S+)$", told, re.MULTILINE)
        )
    return found


@pytest.mark.parametrize("server", SERVERS)
def test_training_goes_on_while_a_server_hangs_for_minutes(stack: Path, pages: Path, server: str) -> None:
    endless = ("train.steps=1000000", "train.checkpoint_every=2000", "train.ranks=1")
    begun = tutti(*tiny(stack, pages, f"input.limit={16 + SERVERS.index(server)}", *endless, output=("--detach",)))
    assert begun.code == 0, begun.err
    run = begun.out.strip()
    until(lambda: trains(stack, run, 10), seconds=300, what=f"the training of {run}")
    before = steps_of(stack)
    with hanging(psutil.Process(pid_of(stack, server))):
        threading.Event().wait(LONG_SECONDS)
        during = steps_of(stack) - before
    print(f"count of steps while {server} hung for {LONG_SECONDS:g} s: {during}")
    assert during > LONG_SECONDS
    until(
        lambda: trains(stack, run, during),
        seconds=HEALED_SECONDS,
        what="the steps that were crossed meanwhile",
    )
    shown = json.loads(tutti("runs", "show", run, "--data-dir", stack, "-o", "json").out)
    (train,) = [each for each in shown["stages"] if each["name"] == "train"]
    job = json.loads(tutti("jobs", "show", train["resource"], "--data-dir", stack, "-o", "json").out)
    assert job["epoch"] == 1  # its ranks were never started again
    assert tutti("runs", "cancel", run, "--data-dir", stack).code == 0
    until(lambda: not ranks(stack), seconds=HEALED_SECONDS, what="the end of its ranks")


TABLES = """
    SELECT DISTINCT ON (nspname) nspname, current_setting('data_directory') || '/' || pg_relation_filepath(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_attribute a ON attrelid = c.oid
    WHERE relkind = 'r' AND attname = 'body' AND pg_relation_size(c.oid) > 0
    ORDER BY nspname, pg_relation_size(c.oid) DESC
"""
MIDDLE_OF_A_PAGE = 8 * 4096


def files_of(url: str) -> dict[str, Path]:
    """By service the file whose first page has resources, written out."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        found = connection.execute(TABLES).fetchall()
    return {service: Path(file) for service, file in found}


def complaints(stack: Path) -> dict[str, str]:
    """By service what the doctor says of a database to restore."""
    found = tutti("doctor", "--data-dir", stack, "-o", "json", seconds=120).json()
    return {each["service"]: each["message"] for each in found if not each["ok"] and "from a backup" in each["message"]}


def test_a_byte_that_flips_in_a_page_of_each_database_is_named_and_a_backup_ends_with_the_same_states(
    programs: None, pages: Path, embedded: Callable[..., Any], tmp_path: Path
) -> None:
    overrides = ("input.limit=4", "train.steps=400", "train.checkpoint_every=50")
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    with brought_up(tmp_path / "data") as damaged:
        begun = tutti(*tiny(damaged, pages, *overrides, output=("--detach",)))
        assert begun.code == 0, begun.err
        run = begun.out.strip()
        until(lambda: trains(damaged, run, 60), seconds=300, what=f"the training of {run}")
        made = local("stack.py", "backup", backup, "--data-dir", damaged)
        assert made.code == 0, made.err
        files = files_of(administrator(damaged, "postgres"))
        assert {"ingest", "pipeline", "scheduler", "committer"} <= set(files)
        local("stack.py", "down", "--data-dir", damaged)
        for file in files.values():
            flip_page(file, MIDDLE_OF_A_PAGE)
        again = local("stack.py", "up", "--data-dir", damaged)
        assert again.code == 0, again.err
        until(lambda: set(files) <= set(complaints(damaged)), seconds=120, what=f"words of {set(files)}")
        for service, words in complaints(damaged).items():
            print(f"events: of the database of {service}: {words}")
    filled = local("stack.py", "restore", backup, "--data-dir", restored)
    assert filled.code == 0, filled.err
    with brought_up(restored):
        result = tutti("runs", "follow", run, "--data-dir", restored, "-o", "json", seconds=600)
        assert result.code == 0, result.err
        assert checkpoints(result.json()) == checkpoints(embedded(*overrides))
