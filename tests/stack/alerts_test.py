"""Alerts on the metrics of real services: each is quiet while all is well, and fires once its condition is caused. The
rules are those of deploy/docker, with `for` of a second and thresholds that one run reaches.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests.e2e.command import ROOT, tiny, tutti
from tests.faults.processes import until
from tests.promtool import Asked, scraping
from tests.scale import SOAK
from tests.stack.conftest import local
from tutti.chassis.config.settings import installed_services

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not SOAK, reason="a soak row; tests/e2e/telemetry_test.py causes one alert in `make test`"),
]
RULES = ROOT / "deploy" / "docker" / "prometheus" / "rules.yml"
SCALED = {
    "EventsUnsent": ("> 1000", "> 0"),
    "NobodyLeads": ("> 0", "> 0"),
}
FIRES_SECONDS = 90.0
QUIET_SECONDS = 90.0


def scaled() -> Iterator[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]:
        if rule["alert"] in SCALED:
            known, scale = SCALED[rule["alert"]]
            assert known in rule["expr"]
            yield {**rule, "expr": rule["expr"].replace(known, scale), "for": "1s"}


@pytest.fixture(scope="module")
def prometheus(stack: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    addresses = {
        service: (stack / "endpoints" / f"{service}.metrics").read_text().strip() for service in installed_services()
    }
    with scraping(tmp_path_factory.mktemp("prometheus"), list(scaled()), addresses) as asked:
        until(lambda: not firing(asked), seconds=QUIET_SECONDS, what="metrics of every service")
        yield asked


def firing(asked: Asked) -> set[str]:
    (group,) = asked("rules")["groups"]
    return {rule["name"] for rule in group["rules"] if rule["state"] == "firing"}


def fires(asked: Asked, alert: str) -> None:
    until(lambda: alert in firing(asked), seconds=FIRES_SECONDS, what=f"the alert {alert}")


def ends(asked: Asked, alert: str) -> None:
    until(lambda: alert not in firing(asked), seconds=QUIET_SECONDS, what=f"the end of the alert {alert}")


@contextmanager
def locked(stack: Path, *tables: str) -> Iterator[None]:
    """Nobody can write these tables, and everybody can read them, as in a database that became read-only."""
    found = json.loads(local("servers.py", "status", "postgres", "--dir", stack / "servers", "-o", "json").out)
    with psycopg.connect(found[0]["url"]) as connection:
        for table in tables:
            connection.execute(f"LOCK TABLE {table} IN SHARE MODE")
        yield


def begin_run(stack: Path, pages: Path, limit: int) -> None:
    begun = tutti(*tiny(stack, pages, f"input.limit={limit}", "train.steps=2", output=("--detach",)))
    assert begun.code == 0, begun.err


def test_nobody_leads_a_service_whose_leases_cannot_be_written(stack: Path, prometheus: Asked) -> None:
    with locked(stack, "scheduler.leases"):
        fires(prometheus, "NobodyLeads")
    ends(prometheus, "NobodyLeads")


def test_events_are_unsent_while_the_relay_cannot_hold_its_lease(stack: Path, pages: Path, prometheus: Asked) -> None:
    assert "EventsUnsent" not in firing(prometheus)
    with locked(stack, "pipeline.leases"):
        begin_run(stack, pages, 11)
        fires(prometheus, "EventsUnsent")
    ends(prometheus, "EventsUnsent")
