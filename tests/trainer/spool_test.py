"""The spool: whole entries or none, bounded, and never a lost receipt."""

from pathlib import Path
from typing import Any

import pytest

from tutti.backbone import ManualClock
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import Files, RealFiles
from tutti.backbone.recording import RecordingFiles
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.report import ShardReport
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.writer import Snapshot, describe, plan_of
from tutti.contracts.trainer.v1 import IoMessage, Release, StoreRequest
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.model.plan import Shape
from tutti.model.results import Scalars
from tutti.model.shapes import to_wire
from tutti.records.canonical import bytes_digest
from tutti.trainer.io.iochild import IoChild
from tutti.trainer.io.spool import Spool


@pytest.fixture
def report(stage: Any) -> Any:
    """Makes (report, bytes) of a step, epoch and rank."""
    training = stage.training()
    span = Span(0, (DatasetShare(training.dataset, 50, 1, 0),), seed=0, leaves=4, rows_per_leaf=2)

    def make(step: int, epoch: int = 1, rank: int = 0) -> tuple[ShardReport, memoryview]:
        shape = Shape(dp=2)
        data = memoryview(bytes([step]) * plan_of(training, shape).snapshot_size(rank))
        snapshot = Snapshot(
            name=ShardName("x", 0, step, epoch, rank),
            node="nodes/a",
            shape=shape,
            training=training,
            kernel={},
            scalars=StateScalars(Scalars(step), 8 * step, Ledger((span,))),
        )
        return describe(data, snapshot), data

    return make


def test_what_was_put_is_there_for_the_next_child_and_half_an_entry_is_not(report: Any, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", RealFiles(), limit=4)
    first, data = report(2)
    spool.put(first, data)
    (tmp_path / "spool" / "x.0.4.1.0.bin").write_bytes(b"half")
    (tmp_path / "spool" / "x.0.4.1.0.tmp").write_bytes(b"half")

    again = Spool(tmp_path / "spool", RealFiles(), limit=4)
    assert [entry.report for entry in again.waiting()] == [first]
    assert again.waiting()[0].data.read_bytes() == data
    assert sorted(path.name for path in (tmp_path / "spool").iterdir()) == ["x.0.2.1.0.bin", "x.0.2.1.0.json"]


def test_the_ranks_of_one_step_count_as_one_snapshot(report: Any, tmp_path: Path) -> None:
    spool = Spool(tmp_path, RealFiles(), limit=2)
    for step in (2, 4):
        for rank in (0, 1):
            made, data = report(step, rank=rank)
            assert spool.has_room_for(made.name)
            spool.put(made, data)
    assert not spool.has_room_for(report(6)[0].name)
    for rank in (0, 1):
        spool.stored(report(2, rank=rank)[0].name)
    assert spool.has_room_for(report(6)[0].name)


def test_a_receipt_is_kept_until_its_attempt_is_given_up(report: Any, tmp_path: Path) -> None:
    spool = Spool(tmp_path, RealFiles(), limit=4)
    made, data = report(2)
    spool.put(made, data)
    spool.stored(made.name)
    assert spool.holds(made.name)
    assert not spool.waiting()
    again = Spool(tmp_path, RealFiles(), limit=4)
    assert again.receipts() == [made]
    again.forget("x", 2)
    assert again.receipts() == [made]
    again.forget("x", 1)
    assert not list(tmp_path.glob("x.*"))


@pytest.mark.parametrize("damaged", ["report", "receipt", "name", "bytes"])
def test_a_damaged_entry_is_set_aside_with_words_and_the_others_go_on(
    report: Any, tmp_path: Path, damaged: str
) -> None:
    spool = Spool(tmp_path / "spool", RealFiles(), limit=4)
    for step in (2, 4):
        spool.put(*report(step))
    if damaged == "receipt":
        spool.stored(report(2)[0].name)
    broken = tmp_path / "spool" / ("x.0.2.1.0.stored" if damaged == "receipt" else "x.0.2.1.0.json")
    if damaged == "bytes":
        (tmp_path / "spool" / "x.0.2.1.0.bin").write_bytes(b"short")
    else:
        broken.write_bytes(report(6)[0].encode() if damaged == "name" else b"\xff\x00 not a report")

    child, said = _child(tmp_path)
    while child.upload():
        pass
    assert [each.stored.step for each in said if each.HasField("stored")] == [4]
    lost = [(each.lost.job, each.lost.step, each.lost.epoch) for each in said if each.HasField("lost")]
    assert lost == ([] if damaged == "receipt" else [("jobs/x", 2, 1)])
    [trouble] = [each.trouble.message for each in said if each.HasField("trouble")]
    assert f"{broken.name} was set aside as {broken.name}.damaged" in trouble
    assert broken.with_name(broken.name + ".damaged").exists()
    again, said = _child(tmp_path)
    assert not again.upload()
    assert [each.WhichOneof("body") for each in said] == ["stored"] + ["lost"] * len(lost)
    for job, epoch in (("another", 1), ("x", 0)):
        Spool(tmp_path / "spool", RealFiles(), limit=4).forget(job, epoch)
    assert broken.with_name(broken.name + ".damaged").exists()


@pytest.mark.parametrize("epoch", [1, 2])
def test_what_was_set_aside_goes_when_its_attempt_or_a_later_one_is_given_up(
    report: Any, tmp_path: Path, epoch: int
) -> None:
    spool = Spool(tmp_path / "spool", RealFiles(), limit=4)
    for step in (2, 4, 6):
        spool.put(*report(step))
    spool.stored(report(4)[0].name)
    spool.stored(report(6)[0].name)
    spool.set_aside(report(2)[0].name, "unwanted")
    for step in (4, 6):
        (tmp_path / "spool" / f"x.0.{step}.1.0.stored").write_bytes(b"not a report")
    child, said = _child(tmp_path)
    assert [each.lost.step for each in said if each.HasField("lost")] == [2]
    assert len(list((tmp_path / "spool").glob("*.damaged"))) == 3
    child.take(IoMessage(release=Release(job="jobs/x", epoch=epoch)))
    while child.spool():
        pass
    assert not list((tmp_path / "spool").iterdir())
    _, said = _child(tmp_path)
    assert said == []


def test_a_snapshot_that_an_earlier_version_spooled_is_stored_among_the_blobs_of_its_node(
    report: Any, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "spool", RealFiles(), limit=4)
    for step in (2, 4):
        spool.put(*report(step))
    spool.stored(report(2)[0].name)
    child, said = _child(tmp_path)
    while child.upload():
        pass
    (entry,) = Spool(tmp_path / "spool", RealFiles(), limit=4).receipts()[1:]
    told = [(each.stored.report_key, each.stored.report_digest) for each in said if each.HasField("stored")]
    assert told == [
        ("trainer/reports/x.0.2.1.0.json", report(2)[0].digest),
        ("trainer/reports/x.0.4.1.0=a", entry.digest),
    ]
    blobs = EmbeddedBlobs(tmp_path / "blobs")
    assert [stat.key for stat in blobs.list("trainer/")] == [
        "trainer/reports/x.0.4.1.0=a",
        "trainer/shards/x.0.4.1.0=a",
    ]
    assert bytes_digest(blobs.get("trainer/reports/x.0.4.1.0=a")) == entry.digest


def test_a_snapshot_whose_name_was_stored_with_other_bytes_holds_up_no_other(report: Any, tmp_path: Path) -> None:
    child, said = _child(tmp_path)
    spool = Spool(tmp_path / "spool", RealFiles(), limit=4)
    for step in (2, 4):
        spool.put(*report(step))
    EmbeddedBlobs(tmp_path / "blobs").put_if_absent(report(2)[0].shard_key, b"other bytes")
    while child.upload():
        pass
    assert [each.stored.step for each in said if each.HasField("stored")] == [4]
    [trouble] = [each.trouble.message for each in said if each.HasField("trouble")]
    assert "x.0.2.1.0 was stored before with other bytes" in trouble
    [lost] = [each.lost for each in said if each.HasField("lost")]
    assert (lost.step, lost.rank) == (2, 0)
    assert "x.0.2.1.0 was stored before with other bytes" in lost.error
    assert sorted(path.name for path in (tmp_path / "spool").iterdir()) == [
        "x.0.2.1.0.json.damaged",
        "x.0.4.1.0.stored",
    ]


def test_a_full_disk_at_any_operation_is_waited_for_by_the_same_child_which_stores_the_snapshot(
    report: Any, stage: Any, tmp_path: Path
) -> None:
    expected, data = report(2)
    request = _request(stage, expected, data, tmp_path / "buffer")
    undisturbed, first, last = _undisturbed(tmp_path / "undisturbed", request)
    for number in range(first, last):
        folder, clock = tmp_path / str(number), ManualClock()
        child, said = _child(folder, _full(range(number, number + 2)), clock)
        _until_idle(child, request, clock)
        assert [each.spooled.step for each in said if each.HasField("spooled")] == [2]
        assert [each.stored.report_digest for each in said if each.HasField("stored")] == [undisturbed]
        assert [each.trouble.message for each in said if each.HasField("trouble")]
        assert (folder / "spool" / "x.0.2.1.0.stored").exists()
        assert list((folder / "spool").glob("*.bin")) == []


def test_a_snapshot_that_waits_for_room_names_itself_the_disk_and_the_bytes(
    report: Any, stage: Any, tmp_path: Path
) -> None:
    expected, data = report(2)
    request = _request(stage, expected, data, tmp_path / "buffer")
    _, first, last = _undisturbed(tmp_path / "undisturbed", request)
    clock = ManualClock()
    child, said = _child(tmp_path, _full(range(first, 100 * last)), clock)
    _until_idle(child, request, clock)
    [trouble] = [each.trouble.message for each in said if each.HasField("trouble")]
    for word in ("x.0.2.1.0", str(data.nbytes), str(tmp_path / "spool"), "free some space"):
        assert word in trouble


def _full(numbers: range) -> RecordingFiles:
    """Files on a disk without room for these operations."""
    return RecordingFiles(RealFiles(), full=lambda operation: operation.number in numbers)


def _undisturbed(folder: Path, request: StoreRequest) -> tuple[str, int, int]:
    """The digest of what a child with room stores, and its operations on files: the first one and their end."""
    files, clock = RecordingFiles(RealFiles()), ManualClock()
    child, said = _child(folder, files, clock)
    first = len(files.operations)
    _until_idle(child, request, clock)
    (digest,) = [each.stored.report_digest for each in said if each.HasField("stored")]
    return digest, first, len(files.operations)


def _request(stage: Any, report: ShardReport, data: memoryview, buffer: Path) -> StoreRequest:
    """What an agent sends for a snapshot that a rank wrote into `buffer`."""
    buffer.write_bytes(data)
    name = report.name
    return StoreRequest(
        job=f"jobs/{name.job}",
        line=name.line,
        step=name.step,
        epoch=name.epoch,
        rank=name.rank,
        shape=to_wire(report.shape),
        training=stage.training().to_json(),
        buffer=str(buffer),
        scalars=report.scalars.to_json(),
        node=report.node,
        loss=report.loss or 0.0,
        kernel="{}",
    )


def _until_idle(child: IoChild, request: StoreRequest, clock: ManualClock) -> None:
    """Hand a snapshot over, and step the lanes until none did anything for a minute."""
    child.take(IoMessage(store=request))
    idle = 0
    while idle < 60:
        idle = 0 if any([lane() for lane in child.lanes]) else idle + 1
        clock.advance(1.0)


def _child(
    folder: Path, files: Files | None = None, clock: ManualClock | None = None
) -> tuple[IoChild, list[IoMessage]]:
    """An I/O child on this folder, and what it says."""
    said: list[IoMessage] = []
    child = IoChild(
        EmbeddedBlobs(folder / "blobs"),
        files or RealFiles(),
        clock or ManualClock(),
        node="a",
        state=folder,
        buffers=folder / "buffers",
        spool=4,
        say=said.append,
    )
    return child, said
