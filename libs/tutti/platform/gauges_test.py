"""Gauges of a service while its event log or its database hangs."""

import dataclasses
import re
import threading
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tutti.backbone import TopicPartition
from tutti.backbone.direct import fetch
from tutti.backbone.embedded.eventlog import EmbeddedEventLog
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.settings import load
from tutti.chassis.delivery import outbox
from tutti.chassis.demo_test import build, eventually
from tutti.chassis.runtime.parts import topics
from tutti.chassis.service import Consumed, Host, Service
from tutti.chassis.store.stack import Stores, compare
from tutti.chassis.store.unit import Unit
from tutti.contracts.ingest.v1 import Ingest
from tutti.platform.host import HostProcess
from tutti.upkeep.examination import Examination

UNSENT, BEHIND = 'outbox_unsent_events{service="ingest"}', 'consumer_lag_records{service="ingest"'


def consuming(host: Host) -> Service:
    return dataclasses.replace(build(host), consumes=[Consumed(Ingest, lambda unit, events: None)])


def scraped(data_dir: Path) -> str:
    address = (data_dir / "metrics").read_text().strip()
    with fetch(f"http://{address}/metrics", seconds=10) as answer:
        return str(answer.read().decode())


def test_a_log_that_hangs_hides_no_number_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, read = threading.Event(), EmbeddedEventLog.end_offsets

    def hangs(self: EmbeddedEventLog, topic: str) -> dict[TopicPartition, int]:
        assert goes_on.wait(60)
        return read(self, topic)

    host = HostProcess({"ingest": consuming}, DataDir(tmp_path), load(environment={}, services=["ingest"]))
    host.start()
    try:
        eventually(lambda: BEHIND in scraped(tmp_path))
        monkeypatch.setattr(EmbeddedEventLog, "end_offsets", hangs)
        for _ in range(2):
            text = scraped(tmp_path)
            assert UNSENT in text
            assert BEHIND not in text
        goes_on.set()
        eventually(lambda: BEHIND in scraped(tmp_path))
    finally:
        goes_on.set()
        host.stop()


def test_a_database_that_hangs_hides_no_number_of_the_log_or_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, count = threading.Event(), outbox.count_unsent

    def hangs(unit: Unit) -> int:
        assert goes_on.wait(60)
        return count(unit)

    host = HostProcess({"ingest": consuming}, DataDir(tmp_path), load(environment={}, services=["ingest"]))
    host.start()
    try:
        eventually(lambda: UNSENT in scraped(tmp_path) and BEHIND in scraped(tmp_path))
        monkeypatch.setattr(outbox, "count_unsent", hangs)
        for _ in range(2):
            text = scraped(tmp_path)
            assert UNSENT not in text
            assert BEHIND in text
            assert "event_loop_lag_seconds" in text
        goes_on.set()
        eventually(lambda: UNSENT in scraped(tmp_path))
    finally:
        goes_on.set()
        host.stop()


def test_a_store_that_does_not_answer_is_shown_until_it_does(tmp_path: Path) -> None:
    host = HostProcess({"ingest": build}, DataDir(tmp_path), load(environment={}, services=["ingest"]))
    host.start()
    try:
        with closing(EmbeddedEventLog(None)) as log:
            log.ensure(topics(host.services[0].service))
            examination = Examination(host.services, log, lambda name: "", lambda name: None)
            examination.step()
            stores = {"database": 0, "event log": 0, "blobs": 0}
            assert shown(tmp_path) == stores
            (tmp_path / "blobs").rename(tmp_path / "away")
            (tmp_path / "blobs").symlink_to("blobs")
            examination.step()
            assert shown(tmp_path) == stores | {"blobs": 1}
            (tmp_path / "blobs").unlink()
            (tmp_path / "away").rename(tmp_path / "blobs")
            examination.step()
            assert shown(tmp_path) == stores
    finally:
        host.stop()


def test_a_log_that_was_emptied_while_the_platform_runs_is_found_and_counted(tmp_path: Path) -> None:
    """Every store answers; only the id of the stack is gone."""
    host = HostProcess({"ingest": build}, DataDir(tmp_path), load(environment={}, services=["ingest"]))
    host.start()
    try:
        with closing(EmbeddedEventLog(None)) as emptied:
            emptied.ensure(topics(host.services[0].service))
            for log, foreign in ((host._log, False), (emptied, True)):
                stores = replace(host._stores, log=log)
                examination = Examination(
                    host.services, log, lambda name: "", partial(_compare, stores, host._identity)
                )
                examination.step()
                (finding,) = [each for each in examination.seen("ingest") if each.check == "stack"]
                assert finding.ok is not foreign
                assert f'store_foreign{{service="ingest"}} {float(foreign)}' in scraped(tmp_path)
            assert "stack.identity" not in emptied._store.topics
    finally:
        host.stop()
    assert "tutti stack adopt" in finding.message


def _compare(stores: Stores, identity: str, _service: str) -> None:
    compare(stores, identity)


def shown(data_dir: Path) -> dict[str, float]:
    """The gauge of each store of the service."""
    found = re.findall(r'store_away{service="ingest",store="(.*)"} (.*)', scraped(data_dir))
    return {store: float(value) for store, value in found}
