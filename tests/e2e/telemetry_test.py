"""Telemetry of a real platform: it delays nothing while its collector hangs; then one trace, the metrics that the
dashboards and rules ask for, and an alert of a real Prometheus.
"""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from tools.dashboards import expressions

from tests.e2e.collector import Collector
from tests.e2e.command import start, tiny, tutti
from tests.faults.processes import until
from tests.network import PROXIES
from tests.promtool import alerts, rules, scraping
from tests.trials.traces import HOPS
from tutti.backbone.direct import fetch

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 18.0  # less than after which the supervisor kills what is late
WORDS = {"and", "or", "unless", "by", "on", "ignoring", "group_left", "le", "bool", "offset"}


@dataclass(frozen=True)
class Observed:
    data_dir: Path
    pages: Path
    collector: Collector
    platform: "subprocess.Popen[str]"

    def log_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for path in (self.data_dir / "logs").glob("*.log")
                for line in path.read_text().splitlines() if line.startswith("{")]  # fmt: skip

    def addresses(self) -> dict[str, str]:
        agent = self.data_dir / "endpoints" / "agent-a.metrics"
        return {"host": (self.data_dir / "metrics").read_text().strip(), "agent-a": agent.read_text().strip()}


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory, pages: Path) -> Iterator[Observed]:
    """A platform whose collector hangs from the start, and whose environment has proxies that lead nowhere."""
    data_dir = tmp_path_factory.mktemp("observed") / "data"
    collector = Collector()
    extra = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}", "OTEL_BSP_SCHEDULE_DELAY": "200", **PROXIES}
    process = start("up", "--agents", "1", "--data-dir", data_dir, extra=extra)
    try:
        until((data_dir / "endpoint").exists, seconds=60.0, what="the endpoint")
        yield Observed(data_dir, pages, collector, process)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=400)
        collector.close()


def test_a_run_ends_and_calls_are_answered_while_the_collector_hangs(observed: Observed) -> None:
    assert observed.collector.asked.wait(30), "the collector was not called"
    result = tutti(*tiny(observed.data_dir, observed.pages, "input.limit=8", "train.steps=5"))
    assert result.code == 0, result.err
    doctor = tutti("doctor", "--data-dir", observed.data_dir, seconds=30.0)
    assert doctor.code == 0, doctor.out


def test_the_log_is_not_flooded_while_the_collector_hangs(observed: Observed) -> None:
    about = [line for line in observed.log_lines() if line["logger"].startswith("opentelemetry")]
    assert max(Counter(re.sub(r"[\d.]+", "N", line["message"]) for line in about).values(), default=0) < 40


def test_one_trace_leads_from_the_call_to_the_blob_of_a_shard(observed: Observed) -> None:
    observed.collector.answer()
    changed = ("input.limit=8", "train.steps=6", "tokenizer.vocabulary=300")
    result = tutti(*tiny(observed.data_dir, observed.pages, *changed))
    assert result.code == 0, result.err
    traces = observed.collector.await_names(HOPS, seconds=20.0)
    best = max(traces.values(), key=len)
    assert best == set(HOPS)


def names_in(expression: str) -> set[str]:
    """The metrics that an expression names."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\"[^\"]*\"", " ", expression)
    bare = re.sub(r"\b(by|on|ignoring) *\([^)]*\)", " ", bare)
    return set(re.findall(r"\b[a-z_][a-z0-9_:]*\b(?! *\()", bare)) - WORDS


def test_the_names_in_an_expression_are_its_metrics_alone() -> None:
    assert names_in('sum by (a, le) (rate(b_bucket{c="d"}[5m])) > 3 and on (e) f_total') == {"b_bucket", "f_total"}


def test_every_metric_of_dashboards_and_rules_is_shown_by_the_platform(observed: Observed) -> None:
    shown = {"up"}
    for address in observed.addresses().values():
        with fetch(f"http://{address}/metrics", seconds=10) as answer:
            text = answer.read().decode()
        for name, kind in re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE):
            shown |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    shown |= {rule["record"] for rule in rules() if "record" in rule}
    asked = {name for each in (*(rule["expr"] for rule in rules()), *expressions()) for name in names_in(each)}
    assert len(asked) > 20
    assert asked - shown == set()


@pytest.fixture(scope="module")
def prometheus(observed: Observed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Asks a real Prometheus that scrapes the platform, with one rule of ours, for two containers and one second."""
    (rule,) = [each for each in alerts() if each["alert"] == "ContainerMissing"]
    two, changed = re.subn(r"< \d+ or", "< 2 or", rule["expr"])
    assert changed == 1
    ours = {**rule, "expr": two, "for": "1s"}
    with scraping(
        tmp_path_factory.mktemp("prometheus"), [ours], {name: [at] for name, at in observed.addresses().items()}
    ) as asked:
        yield asked


def test_a_live_prometheus_answers_every_expression(prometheus: Callable[[str], Any]) -> None:
    until(
        lambda: len(prometheus("query?query=" + quote('up{job="tutti"} == 1'))["result"]) == 2,
        seconds=30.0,
        what="targets of Prometheus",
    )
    found = {line: prometheus(f"query?query={quote(line)}")["result"] for line in expressions()}
    drawn = [line for line, result in found.items() if result]
    for metric in ("loss", "goodput_ratio", "outbox_unsent_events", "process_resident_memory_bytes", "tasks"):
        assert any(metric in names_in(line) for line in drawn), metric


def test_an_alert_fires_when_its_condition_is_caused_and_not_before(
    observed: Observed, prometheus: Callable[[str], Any]
) -> None:
    def state() -> str:
        (group,) = prometheus("rules")["groups"]
        return str(group["rules"][0]["state"])

    until(lambda: state() == "inactive", seconds=15.0, what="an inactive alert")
    children = json.loads((observed.data_dir / "processes.json").read_text())["children"]
    (agent,) = [each["pid"] for each in children if each["name"] == "agent-a"]
    psutil.Process(agent).kill()  # the next one has another port
    until(lambda: state() == "firing", seconds=15.0, what="a firing alert")


def test_a_stop_waits_two_seconds_for_a_collector_that_hangs(observed: Observed) -> None:
    observed.collector.hang()
    assert tutti("doctor", "--data-dir", observed.data_dir, seconds=30.0).code in (0, 1)
    assert observed.collector.asked.wait(30)
    observed.platform.terminate()
    observed.platform.communicate(timeout=STOP_SECONDS)
    assert observed.platform.returncode == 0
    assert [line["message"] for line in observed.log_lines() if "did not end within" in line["message"]] == []
