"""Alerts on the metrics of a stack: none fires while runs are carried out, and each fires once its condition is caused.

The rules are those of deploy/docker. Healthy runs are watched with the rules as they are. For the causes, `for` is
FOR_SECONDS; SCALED has the thresholds and windows that one run cannot reach.
"""

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg
import pytest

from tests.e2e.command import tiny, tutti
from tests.faults.part_test import ranks
from tests.faults.processes import named, until
from tests.promtool import Asked, alerts, rules, scraping
from tests.scale import SOAK
from tests.stack.conftest import local
from tests.stack.observed import hanging, trains
from tutti.backbone import NewRecord
from tutti.backbone.connect import open_log
from tutti.chassis.config.settings import installed_services
from tutti.chassis.errors import Problem
from tutti.client import connect
from tutti.contracts.common.v1 import ListRequest

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not SOAK, reason="a soak row; tests/e2e/telemetry_test.py causes one alert in `make test`"),
]
HEALTHY_MINUTES = float(os.environ.get("HEALTHY_MINUTES", "30"))
COPY = re.compile(r"-\d+$")
SCALED = {
    "CallsFail": [("[1h]", "[1m]")],  # of an hour with many runs, the failed calls of a minute are too few
    "CallsFailSteadily": [("[6h]", "[1m]"), ("[30m]", "[1m]")],
    "CallsSlow": [("[1h]", "[1m]"), ("[5m]", "[1m]"), ("> 50", "> 5")],
    "CallsSlowSteadily": [("[6h]", "[1m]"), ("[30m]", "[1m]"), ("> 50", "> 5")],
    "EventsUnsent": [("> 1000", "> 0")],
    "ConsumerBehind": [("> 10000", "> 0")],
    "StepsStalled": [("[15m]", "[6s]")],
}
LEAST = "< 0.05"
"""The share of a disk below which DiskFills fires; `scaled` takes one that a file of SPARE bytes crosses."""
SPARE = 512 << 20
FOR_SECONDS = 4
INTERVAL_SECONDS = 2
DUE_SECONDS = FOR_SECONDS + 2 * INTERVAL_SECONDS
QUIET_SECONDS = 120.0
ENDLESS = ("train.steps=100000", "train.checkpoint_every=100", "train.attempts=50")


def scaled(stack: Path) -> Iterator[dict[str, Any]]:
    disk = shutil.disk_usage(stack)
    least = (LEAST, f"< {(disk.free - SPARE // 2) / disk.total}")
    for rule in rules():
        expression = rule["expr"]
        for known, scale in [least] if rule.get("alert") == "DiskFills" else SCALED.get(rule.get("alert", ""), []):
            assert known in expression
            expression = expression.replace(known, scale)
        waits = {"for": f"{FOR_SECONDS}s"} if "for" in rule else {}
        yield {**rule, "expr": expression, **waits}


@contextmanager
def watching(
    stack: Path, folder: Path, watched: list[dict[str, Any]], *, interval: float, **others: str
) -> Iterator[Asked]:
    addresses: dict[str, list[str]] = {}
    for path in sorted((stack / "endpoints").glob("*.metrics")):
        addresses.setdefault(COPY.sub("", path.stem), []).append(path.read_text().strip())
    assert set(addresses) == {*installed_services(), "agent-a", "agent-b"}
    count = sum(map(len, addresses.values()))
    with scraping(folder, watched, addresses, interval=interval, others=others) as asked:

        def answer() -> bool:
            return len(results(asked, 'up{job="tutti"} == 1')) == count

        until(answer, seconds=QUIET_SECONDS, what="metrics of every copy")
        until(lambda: not firing(asked), seconds=QUIET_SECONDS, what="quiet")
        yield asked


@pytest.fixture(scope="module")
def collector() -> Iterator[HTTPServer]:
    """A server in place of the collector of traces, whose metrics Prometheus reads; there is none in a stack."""
    with HTTPServer(("127.0.0.1", 0), Empty) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


class Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def prometheus(stack: Path, collector: HTTPServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder, address = tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{collector.server_port}"
    with watching(stack, folder, list(scaled(stack)), interval=INTERVAL_SECONDS, collector=address) as asked:
        until(lambda: bool(results(asked, 'up{job="collector"} == 1')), seconds=QUIET_SECONDS, what="the collector")
        yield asked


def results(asked: Asked, query: str) -> list[dict[str, Any]]:
    return list(asked(f"query?query={quote(query)}")["result"])


def firing(asked: Asked) -> set[str]:
    (group,) = asked("rules")["groups"]
    return {rule["name"] for rule in group["rules"] if rule.get("state") == "firing"}


def fires(asked: Asked, alert: str, *, shown: float, again: Callable[[], object] = lambda: None) -> None:
    """`shown`: seconds until the metric shows the cause; `again` is called while the alert is waited for."""
    began = time.monotonic()

    def fired() -> bool:
        again()
        return alert in firing(asked)

    until(fired, seconds=shown + DUE_SECONDS, what=f"the alert {alert}")
    print(f"alert {alert}: counted {time.monotonic() - began:.1f} s from its cause to its firing")


def ends(asked: Asked, *alerts: str) -> None:
    until(lambda: not firing(asked) & set(alerts), seconds=QUIET_SECONDS, what=f"the end of {alerts}")


def server(stack: Path, name: str) -> psutil.Process:
    return psutil.Process(json.loads((stack / "servers" / name / "pid.json").read_text())["pid"])


def url(stack: Path, name: str) -> str:
    (found,) = json.loads(local("servers.py", "status", name, "--dir", stack / "servers", "-o", "json").out)
    return str(found["url"])


@contextmanager
def locked(stack: Path, table: str, mode: str = "SHARE") -> Iterator[None]:
    """Nobody can write this table, and everybody can read it, as in a database that became read-only.

    With the mode ACCESS EXCLUSIVE, nobody can read it either.
    """
    with psycopg.connect(url(stack, "postgres")) as connection:
        connection.execute(f"LOCK TABLE {table} IN {mode} MODE")
        yield


@contextmanager
def away(stack: Path, schema: str, *tables: str) -> Iterator[None]:
    """Tables have another name, as after a mistake by hand."""
    with psycopg.connect(url(stack, "postgres"), autocommit=True) as connection:
        for table in tables:
            connection.execute(f"ALTER TABLE {schema}.{table} RENAME TO {table}_away")
        try:
            yield
        finally:
            for table in tables:
                connection.execute(f"ALTER TABLE {schema}.{table}_away RENAME TO {table}")


def begin_run(stack: Path, pages: Path, *overrides: str) -> str:
    begun = tutti(*tiny(stack, pages, *overrides, output=("--detach",)))
    assert begun.code == 0, begun.err
    return begun.out.strip()


@contextmanager
def training(stack: Path, pages: Path, *overrides: str, step: int = 1) -> Iterator[str]:
    """A run that trains; cancelled at the end."""
    run = begin_run(stack, pages, *overrides)
    try:
        until(lambda: trains(stack, run, step), seconds=300, what=f"step {step} of {run}")
        yield run
    finally:
        cancelled = tutti("runs", "cancel", run, "--data-dir", stack)
        assert cancelled.code == 0, cancelled.err
        until(lambda: not ranks(stack), seconds=QUIET_SECONDS, what="the end of its ranks")


STANDBY = "StandbyMissing"
"""A stack has no standby of Postgres; tests/stack/replicated_test.py has one, and sees what the metric shows."""


def test_every_alert_is_caused() -> None:
    source = Path(__file__).read_text()
    names = [rule["alert"] for rule in alerts()]
    assert [alert for alert in names if f'fires(prometheus, "{alert}"' not in source] == [STANDBY]


def test_no_alert_fires_while_runs_are_carried_out(
    stack: Path, pages: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with watching(stack, tmp_path_factory.mktemp("healthy"), rules(), interval=15) as asked:
        deadline, count = time.monotonic() + 60 * HEALTHY_MINUTES, 0
        while time.monotonic() < deadline:
            result = tutti(*tiny(stack, pages, f"input.limit={5 + count % 15}", f"train.steps={100 + count}"))
            assert result.code == 0, result.err
            count += 1
        fired = results(asked, f'count_over_time(ALERTS{{alertstate="firing"}}[{int(HEALTHY_MINUTES) + 5}m])')
        print(f"alert rules as they are: {count} runs counted in {HEALTHY_MINUTES:g} minutes, fired: {fired}")
        assert fired == []


def test_a_container_that_hangs_is_missing(stack: Path, prometheus: Asked) -> None:
    (agent,) = [each for each in named(stack, "tutti.trainer") if "b" in each.cmdline()]
    with hanging(agent):
        fires(prometheus, "ContainerMissing", shown=2 * INTERVAL_SECONDS)
    ends(prometheus, "ContainerMissing")


def test_events_are_unsent_while_kafka_hangs(stack: Path, pages: Path, prometheus: Asked) -> None:
    assert "EventsUnsent" not in firing(prometheus)
    with hanging(server(stack, "kafka")):
        run = begin_run(stack, pages, "input.limit=11", "train.steps=2")
        fires(prometheus, "EventsUnsent", shown=10)
    ends(prometheus, "EventsUnsent")
    assert tutti("runs", "follow", run, "--data-dir", stack).code == 0


def test_a_consumer_is_behind_that_cannot_record_what_it_handled(stack: Path, pages: Path, prometheus: Asked) -> None:
    with locked(stack, "lineage.inbox_states"):
        begin_run(stack, pages, "input.limit=12", "train.steps=2")
        fires(prometheus, "ConsumerBehind", shown=15)
    ends(prometheus, "ConsumerBehind")


def test_an_event_that_nobody_can_read_is_a_dead_letter(stack: Path, prometheus: Asked) -> None:
    log = open_log(url(stack, "kafka"))
    record = NewRecord(
        "pipeline.runs", "runs/rubbish", b"\xff", {"ce_type": "tutti.pipeline.v1.Run", "ce_id": "rubbish"}
    )
    log.append([record])
    log.close()
    fires(prometheus, "DeadLetters", shown=30)
    found = json.loads(tutti("events", "dead", "ls", "--data-dir", stack, "-o", "json").out)
    for letter in found:
        settled = tutti(
            "events", "dead", "settle", letter["service"], letter["event_id"], "--discard", "--data-dir", stack
        )
        assert settled.code == 0, settled.err
    ends(prometheus, "DeadLetters")


def test_nobody_leads_a_service_whose_leases_cannot_be_written(stack: Path, prometheus: Asked) -> None:
    with locked(stack, "scheduler.leases"):
        fires(prometheus, "NobodyLeads", shown=30)
    ends(prometheus, "NobodyLeads")


def test_attempts_are_lost_when_ranks_die_again_and_again(stack: Path, pages: Path, prometheus: Asked) -> None:
    with training(stack, pages, "input.limit=13", "train.ranks=1", *ENDLESS):
        for _ in range(4):
            until(lambda: bool(ranks(stack)), seconds=QUIET_SECONDS, what="a rank")
            killed = ranks(stack)
            for each in killed:
                each.kill()
            until(lambda: not set(ranks(stack)) & set(killed), seconds=QUIET_SECONDS, what="the death of ranks")  # noqa: B023
        fires(prometheus, "AttemptsLost", shown=10)


def test_ranks_communicate_for_too_long_when_there_are_more_than_the_model_needs(
    stack: Path, pages: Path, prometheus: Asked
) -> None:
    with training(stack, pages, "input.limit=13", "train.ranks=4", "train.microbatches=4", "train.rows=1", *ENDLESS):
        fires(prometheus, "CommunicationShare", shown=30)
    ends(prometheus, "CommunicationShare")


def test_steps_are_skipped_whose_numbers_are_not_finite(stack: Path, pages: Path, prometheus: Asked) -> None:
    begin_run(stack, pages, "input.limit=13", "train.learning_rate=1e30", "train.steps=100")
    fires(prometheus, "StepsSkipped", shown=120)


def test_steps_stall_while_the_ranks_hang(stack: Path, pages: Path, prometheus: Asked) -> None:
    with training(stack, pages, "input.limit=13", "train.ranks=1", "train.warmup=3", *ENDLESS):
        ends(prometheus, "StepsStalled")
        with hanging(*ranks(stack)):  # their agent takes them for lost after 20 s
            fires(prometheus, "StepsStalled", shown=15)
        ends(prometheus, "StepsStalled")


def test_calls_and_loops_fail_whose_tables_are_away(stack: Path, prometheus: Asked) -> None:
    with ExitStack() as opened:
        client = opened.enter_context(connect(stack))
        opened.enter_context(away(stack, "dedup", "dedups", "tasks"))

        def call() -> None:
            with suppress(Problem):
                client.dedup.ListDedups(ListRequest())

        fires(prometheus, "CallsFail", shown=30, again=call)
        fires(prometheus, "CallsFailSteadily", shown=30, again=call)
        fires(prometheus, "LoopFails", shown=180)


def test_calls_are_slow_while_nobody_can_read_their_table(stack: Path, prometheus: Asked) -> None:
    with ThreadPoolExecutor(8) as threads, connect(stack) as client:

        def call() -> None:
            with suppress(Problem):
                client.comparisons.ListComparisons(ListRequest(), timeout=4)  # each copy is asked for half of it

        def calls() -> None:
            list(threads.map(lambda _: call(), range(8)))

        with locked(stack, "evaluation.comparisons", "ACCESS EXCLUSIVE"):
            fires(prometheus, "CallsSlow", shown=60, again=calls)
            fires(prometheus, "CallsSlowSteadily", shown=60, again=calls)


def test_a_disk_fills(stack: Path, prometheus: Asked) -> None:
    assert "DiskFills" not in firing(prometheus)
    filling = stack / "filling"
    try:
        with filling.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, SPARE)
        fires(prometheus, "DiskFills", shown=2 * INTERVAL_SECONDS)
    finally:
        filling.unlink()
    ends(prometheus, "DiskFills")


def test_a_store_that_hangs_is_away(stack: Path, prometheus: Asked) -> None:
    assert "StoreAway" not in firing(prometheus)
    with hanging(server(stack, "s3")):
        fires(prometheus, "StoreAway", shown=30)
    ends(prometheus, "StoreAway")


def test_a_store_of_another_stack_is_foreign(stack: Path, prometheus: Asked) -> None:
    """As after its volume was exchanged: it answers as before."""
    with psycopg.connect(url(stack, "postgres"), autocommit=True) as connection:
        (identity,) = connection.execute("SELECT id FROM dedup.stack_identity").fetchone() or ()
        connection.execute("UPDATE dedup.stack_identity SET id = 'another'")
        try:
            fires(prometheus, "StoreForeign", shown=30)
        finally:
            connection.execute("UPDATE dedup.stack_identity SET id = %s", [identity])
    ends(prometheus, "StoreForeign")


def test_shards_are_slow_to_be_stored_while_the_blob_store_hangs(stack: Path, pages: Path, prometheus: Asked) -> None:
    with training(stack, pages, "input.limit=14", "train.ranks=1", *ENDLESS, "train.checkpoint_every=500", step=1000):
        with hanging(server(stack, "s3")):
            linger(100)  # the shards that are fast afterwards count as much as each that waited
        fires(prometheus, "CommitSlow", shown=60)


def test_an_attempt_is_slow_to_be_ready_whose_processes_hang(stack: Path, pages: Path, prometheus: Asked) -> None:
    with training(stack, pages, "input.limit=14", "train.ranks=1", *ENDLESS) as run:
        for step in (300, 600, 900, 1200):  # the first attempt, which is fast, counts as much as each of them
            until(lambda: trains(stack, run, step), seconds=QUIET_SECONDS, what=f"step {step}")  # noqa: B023
            killed = ranks(stack)
            makers = [each for each in named(stack, "tutti.trainer.rank.forkserver") if each not in killed]
            for each in killed:
                each.kill()
            with hanging(*makers):
                linger(15)  # a fork server that hangs for 20 s is replaced
        fires(prometheus, "RestoreSlow", shown=60)


def test_ranks_stand_still_while_nobody_stores_their_snapshots(stack: Path, pages: Path, prometheus: Asked) -> None:
    with training(stack, pages, "input.limit=14", "train.ranks=1", *ENDLESS, "train.checkpoint_every=1", step=50):
        with hanging(*named(stack, "tutti.trainer.io.iochild")):
            linger(15)
        fires(prometheus, "SnapshotsStall", shown=60)


def test_the_collector_of_traces_does_not_answer(collector: HTTPServer, prometheus: Asked) -> None:
    collector.shutdown()
    collector.server_close()
    fires(prometheus, "CollectorAway", shown=2 * INTERVAL_SECONDS)


def linger(seconds: float) -> None:
    """Wait for as long as a fault lasts."""
    threading.Event().wait(seconds)
