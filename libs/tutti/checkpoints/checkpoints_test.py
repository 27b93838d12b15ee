"""What a checkpoint promises: one name for a state whatever the shape, and no use of a byte that is not its own."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.checkpoints import (
    CheckpointBody,
    CheckpointError,
    Damaged,
    Incomplete,
    InvalidReport,
    ShardName,
    ShardReport,
    StateScalars,
    build_manifest,
    describe,
    open_staged,
    store,
)
from tutti.checkpoints import example_test as example
from tutti.checkpoints.digests import leaf_digest, model_digest, state_digest
from tutti.checkpoints.errors import InvalidCheckpoint
from tutti.checkpoints.reader import stage
from tutti.checkpoints.verification import verify_manifest, verify_report
from tutti.checkpoints.writer import StoredShard
from tutti.model.chunks import Kind, Layout
from tutti.model.plan import Shape
from tutti.model.training import RoleModel
from tutti.records.canonical import canonical_json, parse_json
from tutti.records.errors import CorpusError

TRAINING = example.training()
LAYOUT = Layout(TRAINING.model)
MANY = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[EmbeddedBlobs]:
    store = EmbeddedBlobs(tmp_path / "blobs")
    yield store
    store.close()


def reports(dp: int, *, line: int = 0, step: int = 5, epoch: int = 1) -> list[ShardReport]:
    shape = Shape(dp)
    return [
        describe(
            example.buffer(TRAINING, shape, rank, step),
            example.snapshot(TRAINING, shape, ShardName("j", line, step, epoch, rank)),
        )
        for rank in range(dp)
    ]


def build(made: list[ShardReport]) -> CheckpointBody:
    return build_manifest(made, training=TRAINING, parent="", verified_by=["nodes/b"])


def commit(blobs: EmbeddedBlobs, dp: int, *, step: int = 5, epoch: int = 1) -> tuple[CheckpointBody, list[StoredShard]]:
    made = reports(dp, step=step, epoch=epoch)
    shards = [store(blobs, r, example.buffer(TRAINING, Shape(dp), r.name.rank, step)) for r in made]
    body = build(made)
    blobs.put_if_absent(body.manifest_key, body.manifest(producer="test").encode())
    return body, shards


def damage(blobs: EmbeddedBlobs, key: str, change: "bytes") -> None:
    blobs.delete(key)
    blobs.put_if_absent(key, change)


@pytest.mark.parametrize("dp", [1, 2, 3, 4])
def test_every_shape_epoch_and_line_gives_a_state_the_same_two_names(dp: int) -> None:
    one, other = build(reports(1)), build(reports(dp, line=3, epoch=9))
    assert (other.model_digest, other.state_digest) == (one.model_digest, one.state_digest)


def test_the_two_names_cover_what_they_promise() -> None:
    leaves = [place.entry.digest for place in build(reports(1)).places]
    scalars = example.scalars(5)
    model, state = model_digest(LAYOUT, leaves), state_digest(LAYOUT, leaves, scalars.to_dict())
    assert model != state
    for index in range(len(leaves)):
        changed = [*leaves[:index], bytes(32), *leaves[index + 1 :]]
        assert (model_digest(LAYOUT, changed) != model) == (index % 3 == 0)
        assert state_digest(LAYOUT, changed, scalars.to_dict()) != state
    for other in (example.scalars(6), replace(scalars, position=1), example.scalars(5, skipped=(2,))):
        assert state_digest(LAYOUT, leaves, other.to_dict()) != state


def test_a_leaf_is_named_by_its_header_too() -> None:
    data = bytes(4 * LAYOUT.chunks[0].length)
    names = {leaf_digest(LAYOUT, LAYOUT.chunks[0], kind, data) for kind in Kind}
    moved = replace(LAYOUT.chunks[0], name="elsewhere")
    assert len(names | {leaf_digest(LAYOUT, moved, Kind.PARAMETER, data)}) == 4


def test_names_are_those_of_the_first_release() -> None:
    body = build(reports(2))
    assert (body.model_digest, body.state_digest) == (GOLDEN_MODEL, GOLDEN_STATE)


def test_a_report_and_a_manifest_come_back_as_written() -> None:
    for report in reports(3):
        assert ShardReport.decode(report.encode(), digest=report.digest) == report
        assert ShardReport.decode(report.encode()).encode() == report.encode()
    body = build(reports(3))
    data = body.manifest(producer="test").encode()
    again = CheckpointBody.decode(data)
    assert again.manifest(producer="test").encode() == data
    assert again.places == body.places
    assert again.scalars == body.scalars


def test_scalars_come_back_as_written() -> None:
    scalars = example.scalars(9, skipped=(3, 7))
    assert StateScalars.from_json(scalars.to_json()) == scalars
    with pytest.raises(CheckpointError, match="skipped: missing"):
        StateScalars.from_json('{"step": 1}')
    with pytest.raises(CheckpointError, match="surprise: not known"):
        StateScalars.from_dict({**scalars.to_dict(), "surprise": 1})
    with pytest.raises(CheckpointError, match="one cause a skipped step"):
        replace(scalars, ledger=example.scalars(9).ledger)


def test_a_rank_without_chunks_stores_an_empty_shard(blobs: EmbeddedBlobs, tmp_path: Path) -> None:
    shape = Shape(4)
    empty = [rank for rank in range(4) if not example.buffer(TRAINING, shape, rank, 5).nbytes]
    body, _ = commit(blobs, 4)
    assert verify_manifest(blobs, body).ok
    assert stage(blobs, body.manifest_key, tmp_path / "staged").body == body
    assert sum(not blob.nbytes for blob in body.blobs) == len(empty)


@pytest.mark.parametrize("dp", [1, 2, 3])
def test_what_any_ranks_wrote_is_read_by_any_others(blobs: EmbeddedBlobs, tmp_path: Path, dp: int) -> None:
    body, _ = commit(blobs, dp)
    staged = stage(blobs, body.manifest_key, tmp_path / "staged", identity=body.state_digest)
    for (chunk, kind), data in example.state(TRAINING, 5).items():
        assert staged.read(chunk, kind).tobytes() == data
        assert staged.read(chunk, Kind(kind)).dtype == np.float32
    assert open_staged(tmp_path / "staged").body == body


def test_staging_again_repairs_what_a_disk_lost(blobs: EmbeddedBlobs, tmp_path: Path) -> None:
    body, _ = commit(blobs, 2)
    folder = tmp_path / "staged"
    stage(blobs, body.manifest_key, folder)
    data = bytearray((folder / "1.bin").read_bytes())
    data[7] ^= 1
    (folder / "1.bin").write_bytes(data)
    with pytest.raises(Damaged, match=r"1\.bin, chunk"):
        [open_staged(folder).read(chunk.index, Kind.PARAMETER) for chunk in LAYOUT.chunks]
    (folder / "0.bin").write_bytes(b"short")
    staged = stage(blobs, body.manifest_key, folder)
    assert staged.read(0, Kind.PARAMETER).tobytes() == example.state(TRAINING, 5)[0, "parameter"]


def test_another_state_than_was_asked_for_is_refused(blobs: EmbeddedBlobs, tmp_path: Path) -> None:
    body, _ = commit(blobs, 1)
    with pytest.raises(CheckpointError, match="ask for the resume point"):
        stage(blobs, body.manifest_key, tmp_path / "staged", identity="blake3:" + "0" * 64)


@MANY
@given(data=st.data())
def test_every_flipped_bit_is_named_by_blob_and_chunk(
    blobs: EmbeddedBlobs, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    body, shards = commit(blobs, 2)
    which = data.draw(st.integers(0, 1))
    blob = body.blobs[which]
    good = blobs.get(blob.key)
    at, bit = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 7))
    bad = bytearray(good)
    bad[at] ^= 1 << bit
    damage(blobs, blob.key, bytes(bad))
    hit = next(e for e in body.entries_by_blob[which] if e.offset <= at < e.offset + e.nbytes)
    try:
        (problem,) = verify_manifest(blobs, body).problems
        assert problem.blob == blob.key
        assert problem.where.startswith(f"chunk {hit.chunk} ")
        assert hit.kind.value in problem.where
        assert problem.expected == f"blake3:{hit.digest.hex()}"
        assert verify_report(blobs, shards[which].report_key, shards[which].report_digest, TRAINING).problems == (
            problem,
        )
        with pytest.raises(Damaged) as refused:
            stage(blobs, body.manifest_key, tmp_path_factory.mktemp("staged"))
        assert refused.value.problems == (problem,)
    finally:
        damage(blobs, blob.key, good)


@MANY
@given(data=st.data())
def test_a_cut_or_lengthened_blob_is_refused(
    blobs: EmbeddedBlobs, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    body, _ = commit(blobs, 2)
    blob = body.blobs[data.draw(st.integers(0, 1))]
    good = blobs.get(blob.key)
    size = data.draw(st.integers(0, len(good) + 9).filter(lambda size: size != len(good)))
    damage(blobs, blob.key, (good + bytes(9))[:size])
    try:
        (problem,) = verify_manifest(blobs, body).problems
        assert (problem.seen, problem.expected) == (f"{size} bytes", f"{len(good)} bytes")
        with pytest.raises(Damaged):
            stage(blobs, body.manifest_key, tmp_path_factory.mktemp("staged"))
    finally:
        damage(blobs, blob.key, good)


@MANY
@given(data=st.data())
def test_swapped_chunks_of_equal_length_are_refused(blobs: EmbeddedBlobs, data: st.DataObject) -> None:
    body, _ = commit(blobs, 1)
    entries = body.entries_by_blob[0]
    first = data.draw(st.sampled_from(entries))
    second = data.draw(st.sampled_from([e for e in entries if e.nbytes == first.nbytes and e != first]))
    good = blobs.get(body.blobs[0].key)
    bad = bytearray(good)
    bad[first.offset : first.offset + first.nbytes] = good[second.offset : second.offset + first.nbytes]
    bad[second.offset : second.offset + first.nbytes] = good[first.offset : first.offset + first.nbytes]
    damage(blobs, body.blobs[0].key, bytes(bad))
    try:
        assert len(verify_manifest(blobs, body).problems) == 2
    finally:
        damage(blobs, body.blobs[0].key, good)


def test_swapped_and_missing_blobs_are_refused(blobs: EmbeddedBlobs, tmp_path: Path) -> None:
    body, shards = commit(blobs, 2)
    older, _ = commit(blobs, 2, step=4)
    damage(blobs, body.blobs[0].key, blobs.get(older.blobs[0].key))
    assert not verify_manifest(blobs, body).ok
    blobs.delete(body.blobs[0].key)
    (problem,) = verify_manifest(blobs, body).problems
    assert problem.seen == "no such blob"
    with pytest.raises(Damaged, match="no such blob"):
        stage(blobs, body.manifest_key, tmp_path / "staged")
    assert verify_report(blobs, shards[1].report_key, shards[0].report_digest, TRAINING).problems
    blobs.delete(shards[1].report_key)
    assert not verify_report(blobs, shards[1].report_key, shards[1].report_digest, TRAINING).ok
    with pytest.raises(Damaged, match="no such blob"):
        stage(blobs, "committer/manifests/j.0.99.json", tmp_path / "none")


@MANY
@given(data=st.data())
def test_no_changed_byte_of_a_manifest_or_report_is_believed(data: st.DataObject) -> None:
    report = reports(2)[1]
    for good in (build(reports(2)).manifest(producer="test").encode(), report.encode()):
        bad = bytearray(good)
        bad[data.draw(st.integers(0, len(good) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        if good == report.encode():
            with pytest.raises(InvalidReport):
                ShardReport.decode(bytes(bad), digest=report.digest)
        else:
            try:
                producer = CheckpointBody.decode(bytes(bad))
            except CorpusError:
                continue
            assert producer == build(reports(2))  # the producer's name is not part of the identity


def test_a_manifest_whose_digests_do_not_follow_is_refused() -> None:
    body = build(reports(2))
    with pytest.raises(InvalidCheckpoint, match="state_digest"):
        replace(body, state_digest="blake3:" + "0" * 64)
    with pytest.raises(InvalidCheckpoint, match="expected"):
        replace(body, places=body.places[3:])
    with pytest.raises(InvalidCheckpoint):
        replace(body, blobs=body.blobs[:1])
    with pytest.raises(InvalidCheckpoint, match="step"):
        replace(body, step=6)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda made: made[:2], "reports of ranks"),
        (lambda made: [*made, made[0]], "reports of ranks"),
        (lambda made: [], "no report"),
        (lambda made: [made[0], made[1], replace(made[2], kernel={"machine": "other"})], "kernel signature"),
        (lambda made: [made[0], made[1], replace(made[2], training="x" * 64)], "training"),
        (lambda made: [replace(report, layout="0" * 64) for report in made], "layout"),
        (lambda made: [made[0], reports(3, epoch=2)[1], made[2]], "epoch"),
        (lambda made: [made[0], reports(3, step=4)[1], made[2]], "step"),
        (lambda made: [made[0], made[1], replace(made[2], scalars=example.scalars(5, skipped=(1,)))], "scalars"),
        (lambda made: [made[0], made[1], replace(made[1], name=made[2].name)], "its own table|table"),
    ],
)
def test_reports_that_make_no_whole_state_are_refused(change, named: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Incomplete, match=named):
        build(change(reports(3)))


def test_a_report_names_the_field_that_is_wrong() -> None:
    value = parse_json(reports(1)[0].encode())
    assert isinstance(value, dict)
    for key, bad in (("step", -1), ("shape", {}), ("format", 2), ("shard", "x"), ("loss", "much"), ("bytes", 1)):
        with pytest.raises(InvalidReport, match=r"step|Shape|format|shard|loss|bytes"):
            ShardReport.decode(canonical_json({**value, key: bad}))
    with pytest.raises(InvalidReport, match="unknown"):
        ShardReport.decode(canonical_json({**value, "more": 1}))


def test_a_snapshot_of_another_size_is_refused() -> None:
    snapshot = example.snapshot(TRAINING, Shape(2), ShardName("j", 0, 5, 1, 0))
    with pytest.raises(CheckpointError, match="bytes"):
        describe(memoryview(b"1234"), snapshot)


def test_storing_twice_is_storing_once_and_another_snapshot_is_refused(blobs: EmbeddedBlobs) -> None:
    (report,) = reports(1)
    data = example.buffer(TRAINING, Shape(1), 0, 5)
    assert store(blobs, report, data) == store(blobs, report, data)
    with pytest.raises(Exception, match="written once"):
        store(blobs, report, example.buffer(TRAINING, Shape(1), 0, 6))


@given(
    job=st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
    numbers=st.tuples(*[st.integers(0, 2**53)] * 4),
    node=st.sampled_from(["", "a", "nodes/a", "nodes/gpu-7.x_1", "a.bin", "a.json"]),
)
def test_a_key_says_what_it_is_of_and_which_node_stored_it(
    job: str, numbers: tuple[int, int, int, int], node: str
) -> None:
    name = ShardName(job, *numbers).stored_by(node)
    for found in (ShardName.of_report(name.report_key), ShardName.of_shard(name.shard_key)):
        assert (found, found.node) == (name, node.removeprefix("nodes/"))


@pytest.mark.parametrize(
    "key",
    [
        "trainer/reports/x.json",
        "trainer/reports/j.0.1.2.03.json",
        "trainer/shards/j.0.1.2.3",
        "trainer/reports/j.0.1.2.3=",
        "trainer/reports/j.0.1.2.3=a/b",
        "trainer/reports/j.0.1.2.3.json=a",
    ],
)
def test_a_key_of_something_else_is_refused(key: str) -> None:
    with pytest.raises(CheckpointError, match="names no report"):
        ShardName.of_report(key)


def test_a_large_table_stays_small() -> None:
    body = build(reports(4))
    size = len(body.manifest(producer="test").encode())
    fixed = len(canonical_json(body.training.to_dict())) + len(canonical_json(body.scalars.to_dict())) + 2500
    assert size - fixed < len(body.places) * 90


def test_what_ranks_use_imports_no_torch_grpc_or_sql() -> None:
    heavy = "{'torch', 'grpc', 'sqlalchemy', 'kafka', 'google'}"
    code = f"import sys, tutti.checkpoints; print(*({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


GOLDEN_MODEL = "blake3:1990df56d654f6b70415a41eca23f0fca66b4359e937f8e00cd7a5d7a869c126"
GOLDEN_STATE = "blake3:542eac7b63965b5d470668bab0cce417cab108c19017e6bb89eae3263fe3cc4f"


def test_a_checkpoint_over_conversations_names_tokenizer_and_models_and_no_dataset() -> None:
    model = RoleModel("reference", "checkpoints/base/0/5", example.DATASET)
    of = replace(TRAINING, tokenizer=example.DATASET, models=(model,))
    body = replace(build(reports(1)), training=of)
    parents = body.manifest(producer="test").parents
    assert set(parents) == {"checkpoints/base/0/5", "jobs/j", f"tokenizers/{example.DATASET.removeprefix('blake3:')}"}
    assert not [name for name in parents if name.startswith("datasets/")]
