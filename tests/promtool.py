"""Prometheus of this machine and its promtool, installed where that can be done without asking."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError

import psutil
import yaml

from tests import packages
from tests.faults.processes import until
from tests.lacking import lacking
from tutti.backbone.direct import fetch

Asked = Callable[[str], Any]

RULES = Path(__file__).resolve().parents[1] / "deploy" / "docker" / "prometheus" / "rules.yml"
HINT = "this tests the alert rules, and needs Prometheus: apt-get install prometheus"


def rules() -> list[dict[str, Any]]:
    """The alerts of the stack, and what is recorded for them."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def alerts() -> list[dict[str, Any]]:
    """The alerts alone."""
    return [rule for rule in rules() if "alert" in rule]


def promtool() -> str:
    """The program; skips the test where there is none."""
    return program("promtool")


def program(name: str) -> str:
    """`promtool` or `prometheus`; skips the test where there is none."""
    found = packages.program(name, package="prometheus")
    if found is None:
        lacking(HINT)
    return found


@contextmanager
def scraping(
    folder: Path,
    rules: Sequence[Mapping[str, Any]],
    addresses: Mapping[str, Sequence[str]],
    *,
    interval: float = 0.5,
    others: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Asked]:
    """Ask a real Prometheus with these rules, which scrapes the addresses of each container every `interval` seconds.

    `others` are addresses of what is not of ours, by job. Yields a function from a path of its API, such as `rules`, to
    the data of the answer.
    """
    binary = program("prometheus")
    targets = [{"targets": [*each], "labels": {"container": name}} for name, each in addresses.items()]
    every = f"{1000 * interval:.0f}ms"
    configuration = {
        "global": {"scrape_interval": every, "evaluation_interval": every, "scrape_timeout": every},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {"job_name": "tutti", "static_configs": targets},
            *({"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in others.items()),
        ],
    }
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "tutti", "rules": list(rules)}]}))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [binary, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
             "--web.listen-address=127.0.0.1:0"], stdout=log, stderr=log)  # fmt: skip
    try:
        port: list[int] = []

        def listens() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            port[:] = [
                each.laddr.port for each in psutil.Process(process.pid).net_connections() if each.status == "LISTEN"
            ]
            return bool(port)

        def ready() -> bool:
            try:
                with fetch(f"http://127.0.0.1:{port[0]}/-/ready", seconds=10) as answer:
                    return bool(answer.status == HTTPStatus.OK)
            except HTTPError:  # 503 while it loads
                return False

        until(listens, seconds=30.0, what="Prometheus")
        until(ready, seconds=30.0, what="Prometheus to be ready")

        def asked(path: str) -> Any:
            with fetch(f"http://127.0.0.1:{port[0]}/api/v1/{path}", seconds=10) as answer:
                return json.load(answer)["data"]

        yield asked
    finally:
        process.terminate()
        process.wait(30)
