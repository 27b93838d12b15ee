"""Real agents, I/O children and ranks over the real message protocol: what runs, what it stores, how it goes on."""

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tutti.backbone import ManualClock, SystemClock
from tutti.checkpoints.curve import Curve
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.manifest import CheckpointBody, build_manifest
from tutti.checkpoints.report import ShardReport
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.verification import verify_report
from tutti.checkpoints.writer import Snapshot, describe, plan_of, store
from tutti.contracts.committer.v1 import ClaimVerificationResponse
from tutti.contracts.scheduler.v1 import RANK_EVENT_FINISHED, RANK_EVENT_READY, RANK_EVENT_SPAWNED
from tutti.contracts.trainer.v1 import IoMessage, StageRequest
from tutti.model.plan import Shape
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.trainer.agent.iolink import ProcessIoLink
from tutti.trainer.batches.data import TrainingData
from tutti.trainer.io.iosettings import IoSettings
from tutti.trainer.io.staging import Cache

Wait = Callable[..., None]


def in_process(stage: Any, training: Training, folder: Path) -> dict[int, dict[tuple[int, str], str]]:
    """The digests of every due step, computed here by a RankStep of one rank."""
    from tutti.backbone.files import RealFiles

    torch.set_num_threads(1)
    plan = plan_of(training, Shape(dp=1))
    step = RankStep(
        training.model, training.optimizer, training.step, plan, rank=0, epoch=1, audit_every=training.audit_every
    )
    step.initialize()
    wanted = {stage.digest: stage.manifest_key} | {each.digest: each.manifest_key for each in stage.mixed}
    data = TrainingData(Cache(folder, stage.blobs, RealFiles()).datasets(wanted), training)
    ledger, found = data.first_ledger(), {}
    for number in range(1, training.steps + 1):
        step.run(number, data.leaves(ledger, number, step.leaves_needed(number)))
        if training.checkpoint_due(number):
            buffer = bytearray(step.snapshot_size())
            step.snapshot_into(memoryview(buffer))
            report = describe(
                memoryview(buffer),
                Snapshot(
                    name=ShardName("x", 0, number, 1, 0),
                    node="nodes/x",
                    shape=Shape(dp=1),
                    training=training,
                    kernel={},
                    scalars=StateScalars(step.scalars(), 8 * number, ledger),
                ),
            )
            found[number] = {(entry.chunk, entry.kind.value): entry.digest.hex() for entry in report.chunks}
    return found


def commit(stage: Any, reports: list[ShardReport], training: Training) -> CheckpointBody:
    """Publish the manifest that the committer would."""
    body = build_manifest(reports, training=training, parent="", verified_by=["test"])
    stage.blobs.put_if_absent(body.manifest_key, body.manifest(producer="test").encode())
    return body


def test_one_rank_stores_the_states_that_one_process_computes(stage: Any, wait: Wait, tmp_path: Path) -> None:
    stage.agent()
    training = stage.training()
    stage.plane.assign("a", stage.assignment(training))
    wait(lambda: stage.plane.events(RANK_EVENT_FINISHED) or stage.plane.losses)
    assert not stage.plane.losses
    wait(lambda: len(stage.plane.shards) == 3)

    assert stage.plane.digests(1) == in_process(stage, training, tmp_path / "cache")
    for report in stage.plane.reports().values():
        assert verify_report(stage.blobs, report.report_key, report.digest, training).ok
        assert report.scalars.position == report.name.step * 8
    assert stage.plane.last_step == 6
    assert [report.bits_per_byte is not None for report in stage.plane.reports().values()] == [False, False, True]

    stage.plane.assign("a")
    wait(lambda: stage.plane.released)
    assert (stage.plane.released[0].job, stage.plane.released[0].epoch) == ("jobs/tiny", 1)


@pytest.mark.parametrize("weights", [(), (2, 1, 3)], ids=["one-dataset", "a-mixture"])
def test_two_ranks_on_two_nodes_and_a_resumed_one_store_the_same_states(
    weights: tuple[int, ...], stage: Any, wait: Wait, tmp_path: Path
) -> None:
    training = stage.mix(stage.training(), *weights) if weights else stage.training()
    for node in "ab":
        stage.agent(node)
    stage.plane.assign("a", stage.assignment(training, ranks=(0,), dp=2))
    stage.plane.assign("b", stage.assignment(training, ranks=(1,), dp=2))
    wait(lambda: len(stage.plane.events(RANK_EVENT_FINISHED)) == 2 or stage.plane.losses)
    assert not stage.plane.losses
    wait(lambda: len(stage.plane.shards) == 6)
    assert len(stage.plane.events(RANK_EVENT_SPAWNED)) == len(stage.plane.events(RANK_EVENT_READY)) == 2
    two = stage.plane.digests(1)
    if weights:
        assert two == in_process(stage, training, tmp_path / "cache")

    middle = [report for (step, _, _), report in stage.plane.reports().items() if step == 2]
    body = commit(stage, middle, training)
    resumed = stage.assignment(
        training,
        epoch=2,
        resume_manifest_key=body.manifest_key,
        resume_digest=body.state_digest,
        resume_checkpoint=body.name,
    )
    stage.plane.assign("b")
    stage.plane.assign("a", resumed)
    wait(lambda: len(stage.plane.events(RANK_EVENT_FINISHED)) == 3 or stage.plane.losses)
    assert not stage.plane.losses
    wait(lambda: len(stage.plane.shards) == 8)
    one = stage.plane.digests(2)
    assert sorted(one) == [4, 6]
    assert one == {step: two[step] for step in one}
    curves = {key: report.curve for key, report in stage.plane.reports().items()}
    for step in (4, 6):  # of both nodes, and of the one that resumed
        assert curves[step, 1, 0] == curves[step, 1, 1] == curves[step, 2, 0]
        assert list(Curve.decode(curves[step, 2, 0]).steps["step"]) == [step - 1, step]
    assert list(Curve.decode(curves[6, 2, 0]).validations["step"]) == [6]


def test_a_dataset_with_a_flipped_byte_is_refused_and_named(stage: Any, wait: Wait) -> None:
    manifest = json.loads(stage.blobs.get(stage.manifest_key))
    key = manifest["body"]["train"]["shards"][1]["blob"]
    path = next(path for path in stage.blob_folder.rglob("*") if path.is_file() and path.name == Path(key).name)
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    stage.agent()
    stage.plane.assign("a", stage.assignment(stage.training()))
    wait(lambda: stage.plane.losses)
    assert key in stage.plane.losses[0].cause
    assert "damaged" in stage.plane.losses[0].cause
    assert not stage.plane.events(RANK_EVENT_SPAWNED)


def test_a_shard_of_another_node_is_read_back_on_request(stage: Any, wait: Wait) -> None:
    stage.agent()
    training = stage.training(steps=2)
    stage.plane.assign("a", stage.assignment(training))
    wait(lambda: stage.plane.shards)
    shard = stage.plane.shards[0]

    def read_back(key: str, digest: str) -> str:
        """What the agent says of a shard."""
        known = len(stage.plane.verifications)
        stage.plane.claims.append(
            ClaimVerificationResponse(
                verification=f"v{known}", claim=1, report_key=key, report_digest=digest, training=training.to_json()
            )
        )
        wait(lambda: len(stage.plane.verifications) > known)
        assert stage.plane.verifications[-1].verification == f"v{known}"
        return str(stage.plane.verifications[-1].error)

    assert read_back(shard.report_key, shard.report_digest) == ""

    # Its bytes are as the report says of the whole: what it says of one tensor, or which tensors lie there, is not.
    report = next(iter(stage.plane.reports().values()))
    data = stage.blobs.get(report.shard_key)
    first, second, *rest = report.chunks
    wrong = {
        "chunk 0 (": (replace(first, digest=bytes(32)), second, *rest),
        "another table of chunks": (
            replace(first, nbytes=first.nbytes - 4),
            replace(second, offset=second.offset - 4, nbytes=second.nbytes + 4),
            *rest,
        ),
    }
    for epoch, (words, chunks) in enumerate(wrong.items(), start=2):
        lying = replace(report, name=replace(report.name, epoch=epoch), chunks=chunks)
        store(stage.blobs, lying, memoryview(data))
        assert words in read_back(lying.report_key, lying.digest)

    path = stage.blob_folder / report.shard_key
    path.chmod(0o644)
    path.write_bytes(data[:5] + bytes([data[5] ^ 1]) + data[6:])
    assert report.shard_key in read_back(shard.report_key, shard.report_digest)


def test_an_unreachable_control_plane_does_not_stop_the_ranks(stage: Any, wait: Wait) -> None:
    agent = stage.agent()
    stage.plane.assign("a", stage.assignment(stage.training(steps=100_000, checkpoint_every=100_000)))
    wait(lambda: stage.plane.last_step > 10)
    stage.plane.away = True
    seen = agent.agent.attempts[0].steps[0]
    wait(lambda: agent.agent.attempts[0].steps[0] > seen + 50)
    stage.plane.away = False
    wait(lambda: stage.plane.last_step > seen + 50)
    assert not stage.plane.losses


def test_an_io_child_answers_at_once_where_nothing_is_to_be_staged(tmp_path: Path, wait: Wait) -> None:
    settings = IoSettings("a", f"file://{tmp_path}/blobs", state=str(tmp_path), buffers=str(tmp_path / "buffers"))
    link, heard = ProcessIoLink(settings, SystemClock(), silence=20.0), list[IoMessage]()

    def answered() -> bool:
        heard.extend(link.receive())
        return bool(heard)

    try:
        link.send(IoMessage(stage=StageRequest(id=7)))
        wait(answered)
    finally:
        link.close()
    assert [each.staged.id for each in heard] == [7]
    assert link.restarts == 0


def test_an_io_child_that_does_not_answer_in_time_is_replaced_by_one_with_twice_the_time(tmp_path: Path) -> None:
    """No child answers here: none gets as far, because no real time passes."""
    settings = IoSettings("a", f"file://{tmp_path}/blobs", state=str(tmp_path), buffers=str(tmp_path / "buffers"))
    clock = ManualClock()
    link, limits = ProcessIoLink(settings, clock, silence=20.0), list[float]()
    try:
        for _ in range(3):
            began, restarts = clock.monotonic(), link.restarts
            link.processes()[0].send(signal.SIGSTOP)
            while link.restarts == restarts:
                clock.advance(1.0)
                link.receive()
            limits.append(clock.monotonic() - began - 1.0)
    finally:
        link.close()
    assert limits == [20.0, 40.0, 80.0]
