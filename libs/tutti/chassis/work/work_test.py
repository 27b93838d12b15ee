"""Work: it ends once, its task with it; what it stores is mended where it was damaged."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tutti.backbone.blobs import BlobExists
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.errors import AlreadyExists, InvalidField, Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.progress import Progress
from tutti.chassis.store import taskrows
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TELL_SECONDS, TaskContext, TaskWorker
from tutti.chassis.tasks_test import TTL, Bench
from tutti.chassis.work.work import Outcome, Work, publish, put_content, put_named
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_PENDING, CancelRequest, GetRequest
from tutti.contracts.dedup.v1 import CreateDedupRequest, Dedup, DedupSpec
from tutti.records.canonical import bytes_digest
from tutti.records.manifest import Kind, Manifest

OPERATOR = Principal.of_role(Role.OPERATOR)
REQUEST = CreateDedupRequest(name="dedups/a", request_id="a", spec=DedupSpec(manifest_key="private"))


@pytest.fixture
def blobs(tmp_path: Path) -> EmbeddedBlobs:
    return EmbeddedBlobs(tmp_path / "blobs")


@pytest.fixture
def bench(blobs: EmbeddedBlobs) -> Iterator[Bench]:
    made = Bench(blobs, service="dedup")
    yield made
    made.database.close()


def made_of(bench: Bench, ran: list[str]) -> Work[Dedup]:
    def run(context: TaskContext, dedup: Dedup) -> Outcome:
        ran.append(dedup.name)
        return lambda unit, dedup: None

    work = Work(bench, "dedups", Dedup, run, "v1")
    bench.database.create(bench.metadata)
    return work


def tasks(bench: Bench) -> list[str]:
    rows = bench.units.tables.tasks
    return bench.units.run(lambda unit: [str(row.state) for row in unit.tx.execute(select(rows.c.state)).all()])


def test_a_cancel_ends_the_task_too(bench: Bench) -> None:
    ran: list[str] = []
    work = made_of(bench, ran)
    work.create(REQUEST)
    assert tasks(bench) == ["waiting"]
    assert work.cancel(CancelRequest(name="dedups/a"), OPERATOR).state == STATE_CANCELLED
    assert tasks(bench) == ["cancelled"]
    worker = TaskWorker(bench, {"dedups": work.task()}, holder="a", ttl=TTL)
    assert not worker.step()
    assert ran == []


def test_a_request_that_is_repeated_has_its_answer_whatever_became_of_what_it_needed(bench: Bench) -> None:
    def refuse() -> None:
        raise Refused("NOT_DONE", "its input is gone")

    work = made_of(bench, [])
    with pytest.raises(Refused):
        work.create(REQUEST, check=refuse)
    first = work.create(REQUEST, check=lambda: None)
    assert work.create(REQUEST, check=refuse) == first
    with pytest.raises(Refused):
        work.create(CreateDedupRequest(name="dedups/b", request_id="b", spec=REQUEST.spec), check=refuse)
    with pytest.raises(AlreadyExists):
        work.create(CreateDedupRequest(name="dedups/a", request_id="b"), check=refuse)
    only_checked = CreateDedupRequest(name="dedups/a", request_id="a", spec=REQUEST.spec, validate_only=True)
    with pytest.raises(Refused):
        work.create(only_checked, check=refuse)
    work.cancel(CancelRequest(name="dedups/a"), OPERATOR)
    assert work.create(REQUEST, check=refuse, anew=True).state == STATE_CANCELLED
    anew = CreateDedupRequest(name="dedups/a", request_id="b", spec=REQUEST.spec)
    with pytest.raises(Refused):
        work.create(anew, check=refuse, anew=True)


def test_a_request_of_an_earlier_version_is_refused_unless_it_is_repeated(bench: Bench) -> None:
    spec = DedupSpec(manifest_key="private", logic_version="v1")
    request = CreateDedupRequest(name="dedups/a", request_id="a", spec=spec)
    work = made_of(bench, [])
    first = work.create(request)
    work.logic_version = "v2"
    assert work.create(request) == first
    with pytest.raises(InvalidField, match="logic_version"):
        work.create(CreateDedupRequest(name="dedups/b", request_id="b", spec=spec))


def test_what_was_cancelled_is_begun_anew_by_another_request_and_what_still_runs_of_it_records_nothing(
    bench: Bench,
) -> None:
    ran: list[str] = []

    def run(context: TaskContext, dedup: Dedup) -> Outcome:
        ran.append(dedup.spec.manifest_key)
        if len(ran) == 1:
            work.cancel(CancelRequest(name="dedups/a"), OPERATOR)
            assert work.create(REQUEST, anew=True).state == STATE_CANCELLED  # that request had its answer
            assert work.create(other, anew=True).state == STATE_PENDING
            with pytest.raises(AlreadyExists):
                work.create(REQUEST, anew=True)  # it is the other one's now

        def fill(unit: Unit, found: Dedup) -> None:
            found.documents = len(ran)

        return fill

    work = Work(bench, "dedups", Dedup, run, "v1")
    bench.database.create(bench.metadata)
    other = CreateDedupRequest(name="dedups/a", request_id="b", spec=DedupSpec(manifest_key="other"))
    work.create(REQUEST)
    worker = TaskWorker(bench, {"dedups": work.task()}, holder="a", ttl=TTL)
    assert worker.step()
    assert work.get(GetRequest(name="dedups/a"), OPERATOR).state == STATE_PENDING
    assert worker.step()
    done = work.get(GetRequest(name="dedups/a"), OPERATOR)
    assert (done.state, done.documents, ran) == (STATE_DONE, 2, ["private", "other"])
    assert work.create(other, anew=True) == done
    assert not worker.step()


def test_how_far_work_is_can_be_seen_while_it_runs_and_is_in_no_event(bench: Bench) -> None:
    seen: list[Dedup] = []

    def run(context: TaskContext, dedup: Dedup) -> Outcome:
        for done in (1, 2):
            context.tell(Progress(done, 5, "documents"))
            context.tell(Progress(done + 100, 5, "documents"))  # too soon to be worth a transaction
            seen.append(work.get(GetRequest(name="dedups/a"), OPERATOR))
            bench.clock.advance(TELL_SECONDS)
        return lambda unit, dedup: None

    work = Work(bench, "dedups", Dedup, run, "v1")
    bench.database.create(bench.metadata)
    work.create(REQUEST)
    assert not work.get(GetRequest(name="dedups/a"), OPERATOR).HasField("progress")
    assert TaskWorker(bench, {"dedups": work.task()}, holder="a", ttl=TTL).step()
    assert [each.progress.done for each in seen] == [1, 2]
    assert (seen[0].progress.total, seen[0].progress.unit, seen[0].revision) == (5, "documents", seen[1].revision)
    assert not work.get(GetRequest(name="dedups/a"), OPERATOR).HasField("progress")
    stored = bench.units.run(lambda unit: work.resource.get(unit, "dedups/a"))
    assert not stored.HasField("progress")
    bench.clock.advance(1000 * TTL)
    assert bench.units.run(lambda unit: taskrows.prune(unit, bench.clock.now())) == 1
    table = bench.units.tables.task_progress
    assert bench.units.run(lambda unit: unit.tx.execute(select(table.c.id)).all()) == []


def test_what_is_private_is_kept_with_the_work_and_not_shown(bench: Bench) -> None:
    kept: list[str] = []

    def keep(unit: Unit) -> None:
        kept.append(REQUEST.spec.manifest_key)

    work = made_of(bench, [])
    for _ in range(2):
        assert work.create(REQUEST, shown=DedupSpec(), keep=keep).spec == DedupSpec(logic_version="v1")
    assert work.get(GetRequest(name="dedups/a"), OPERATOR).spec.manifest_key == ""
    assert kept == ["private", "private"]
    assert tasks(bench) == ["waiting"]


def test_damaged_bytes_under_the_name_of_others_are_replaced_and_logged(
    blobs: EmbeddedBlobs, caplog: pytest.LogCaptureFixture
) -> None:
    key = put_named(blobs, "dedup/clusters", b"whole", ".json")
    damage(blobs, key, b"whola")
    with caplog.at_level(logging.ERROR):
        assert put_named(blobs, "dedup/clusters", b"whole", ".json") == key
    assert blobs.get(key) == b"whole"
    assert [key in record.getMessage() for record in caplog.records] == [True]


def test_a_file_replaces_damage_too(blobs: EmbeddedBlobs, tmp_path: Path) -> None:
    key = put_named(blobs, "dedup/clusters", b"whole", ".json")
    damage(blobs, key, b"whola")
    (tmp_path / "file").write_bytes(b"whole")
    put_content(blobs, key, tmp_path / "file", bytes_digest(b"whole"))
    assert blobs.get(key) == b"whole"


def test_a_key_that_does_not_name_the_bytes_keeps_what_it_holds(blobs: EmbeddedBlobs) -> None:
    blobs.put_if_absent("dedup/clusters/newest.json", b"theirs")
    with pytest.raises(BlobExists):
        put_content(blobs, "dedup/clusters/newest.json", b"ours", bytes_digest(b"ours"))
    assert blobs.get("dedup/clusters/newest.json") == b"theirs"


@pytest.mark.parametrize("where", [b"{", b"3}", b"blake3:"])
def test_a_damaged_manifest_is_replaced(blobs: EmbeddedBlobs, where: bytes) -> None:
    manifest = Manifest(kind=Kind.DEDUP, body={"documents": 3}, parents=(), producer="test 1")
    key = publish(blobs, "dedup", manifest, data_bytes=0).manifest_key
    damaged = bytearray(manifest.encode())
    damaged[damaged.index(where)] ^= 1
    damage(blobs, key, bytes(damaged))
    again = publish(blobs, "dedup", manifest, data_bytes=0)
    assert Manifest.decode(blobs.get(again.manifest_key), expected=Kind.DEDUP) == manifest


def test_a_manifest_that_another_version_of_the_producer_wrote_stays(blobs: EmbeddedBlobs) -> None:
    older: dict[str, Any] = {"kind": Kind.DEDUP, "body": {"documents": 3}, "parents": ()}
    key = publish(blobs, "dedup", Manifest(**older, producer="test 1"), data_bytes=0).manifest_key
    assert publish(blobs, "dedup", Manifest(**older, producer="test 2"), data_bytes=0).manifest_key == key
    assert Manifest.decode(blobs.get(key), expected=Kind.DEDUP).producer == "test 1"


def damage(blobs: EmbeddedBlobs, key: str, data: bytes) -> None:
    blobs.delete(key)
    blobs.put_if_absent(key, data)
