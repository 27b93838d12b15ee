"""Kafka and S3 servers that hang (SIGSTOP): every call ends at its deadline and names the server, and works again
after. A server that is dead refuses connections; one that hangs accepts them and never answers.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kafka
import psutil
import pytest
from kafka.errors import UnknownBrokerIdError
from tests.browser.campaign import CampaignServer, pair_lines
from tests.e2e.command import tutti
from tests.faults.processes import until
from tests.web.annotation_test import Annotator
from tests.web.hosted import Visitor, hosted

from tutti.annotation.service import build
from tutti.backbone import Kind, NewRecord, Topic, TopicPartition
from tutti.backbone.blobs import BlobsUnavailable
from tutti.backbone.eventlog import LogUnavailable
from tutti.backbone.kafka.brokers import Brokers
from tutti.backbone.kafka.eventlog import KafkaEventLog
from tutti.backbone.s3.blobs import S3Blobs
from tutti.client import connect
from tutti.contracts.annotation.v1 import CAMPAIGN_STATE_PUBLISHED
from tutti.contracts.common.v1 import GetRequest

TOPIC = Topic("hung", Kind.FACT, 1)
RECORD = NewRecord(TOPIC.name, "k", b"v")


@contextmanager
def hung(server: Any) -> Iterator[None]:
    pid = json.loads((server.folder / server.name / "pid.json").read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        # On a busy machine a thread answers one more call before it sees the signal.
        threads = Path(f"/proc/{pid}/task")
        until(lambda: all(_stopped(each) for each in threads.iterdir()), seconds=20, what="the stop of the server")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _stopped(thread: Path) -> bool:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_no_call_waits_for_a_broker_that_hangs(own_server: Callable[[str], Any]) -> None:
    server = own_server("kafka")
    brokers = Brokers.parse(server.up())
    with closing(KafkaEventLog(brokers, deadline_seconds=2)) as log:
        log.ensure([TOPIC])
        log.append([RECORD])
        with hung(server), closing(KafkaEventLog(brokers, deadline_seconds=2)) as stranger:
            calls: list[Callable[[], object]] = [
                lambda: log.append([RECORD]),
                lambda: stranger.ensure([TOPIC]),
            ]
            for call in calls:
                with pytest.raises(LogUnavailable, match=str(brokers)):
                    call()
        with closing(KafkaEventLog(brokers)) as patient:
            patient.append([RECORD])
        assert log.read(TopicPartition(TOPIC.name, 0), 0)[0].value == b"v"


def test_the_offsets_of_a_partition_without_a_leader_are_waited_for(
    kafka_url: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was slow for longer than its session leads nothing for a moment, and the client raises at once."""
    ask, refused = kafka.KafkaAdminClient.list_partition_offsets, [UnknownBrokerIdError(-1), UnknownBrokerIdError(-1)]

    def asked(*words: Any, **named: Any) -> Any:
        if refused:
            raise refused.pop()
        return ask(*words, **named)

    with closing(KafkaEventLog(Brokers.parse(kafka_url))) as log:
        log.ensure([Topic(unique, Kind.FACT, 1)])
        log.append([NewRecord(unique, "k", b"v")])
        monkeypatch.setattr(kafka.KafkaAdminClient, "list_partition_offsets", asked)
        assert log.end_offsets(unique) == {TopicPartition(unique, 0): 1}
    assert not refused


def test_no_call_waits_for_an_s3_server_that_hangs(own_server: Callable[[str], Any]) -> None:
    server = own_server("s3")
    parts = urlsplit(server.up())

    def opened() -> S3Blobs:
        return S3Blobs(
            f"{parts.hostname}:{parts.port}",
            access_key=parts.username or "",
            secret_key=parts.password or "",
            bucket="hung",
            secure=False,
            deadline_seconds=0.2,
        )

    with closing(opened()) as blobs:
        blobs.put_if_absent("owner/kind/a", b"a")
        with hung(server):
            calls: list[Callable[[], object]] = [
                lambda: blobs.get("owner/kind/a"),
                lambda: blobs.put_if_absent("owner/kind/b", b"b"),
                lambda: list(blobs.list("owner/")),
                opened,
            ]
            for call in calls:
                with pytest.raises(BlobsUnavailable, match=f"{parts.hostname}:{parts.port}"):
                    call()
        assert blobs.get("owner/kind/a") == b"a"


def test_a_command_names_the_database_that_hangs(own_server: Callable[[str], Any], tmp_path: Path) -> None:
    server = own_server("postgres")
    url, folder = server.up(), tmp_path / "platform"
    with hosted(folder, f"database.url={url}"):
        assert tutti("runs", "ls", "--data-dir", folder).code == 0
        postmaster = psutil.Process(json.loads((server.folder / server.name / "pid.json").read_text())["pid"])
        processes = [postmaster, *postmaster.children(recursive=True)]
        for process in processes:
            process.suspend()
        try:
            told = tutti("runs", "ls", "--data-dir", folder)
        finally:
            for process in processes:
                process.resume()
        assert told.code == 3
        assert "the database does not answer the platform: " in told.err
        assert "database.url" in told.err


def test_what_is_judged_while_event_log_and_blob_store_hang_is_published_once(
    own_server: Callable[[str], Any], tmp_path: Path
) -> None:
    kafka, s3 = own_server("kafka"), own_server("s3")
    stores = (f"log.url={kafka.up()}", f"blobs.url={s3.up()}")
    folder = tmp_path / "platform"
    with (
        hosted(folder, *stores, "annotation.undo_seconds=0.2", builds={"annotation": build}) as platform,
        connect(folder) as client,
    ):
        owner = CampaignServer(folder)
        owner.campaign("hung", "ada", pairs=pair_lines(6))
        ada = Annotator(Visitor(platform.url), campaign="hung")
        ada.visitor.post("/login", {"token": owner.link("ada"), "next": "/annotation"})
        ada.state()
        pairs = ada.lease()
        with hung(kafka), hung(s3):
            first, second = pairs[:3], pairs[3:]
            receipts = [ada.judge(*each).json for each in (first, first, second)]  # the second one repeats the first
            assert [len(each["accepted"]) for each in receipts] == [3, 3, 3]
            assert ada.lease() == []
        name = GetRequest(name="campaigns/hung")
        published = CAMPAIGN_STATE_PUBLISHED
        until(lambda: client.annotation.GetCampaign(name).state == published, seconds=60, what="its publication")
        assert client.annotation.GetCampaign(name).judgements == 6
