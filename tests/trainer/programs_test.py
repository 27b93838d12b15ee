"""Fine-tuning and reward learning by real agents: a rank is killed, another goes on, the states are the same."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import talks
from tests.trainer.agent_test import commit

from tutti.checkpoints.curve import Curve
from tutti.contracts.scheduler.v1 import RANK_EVENT_DISTURBED, RANK_EVENT_FINISHED, Assignment
from tutti.corpus.conversations.conversations import Conversation, Message, Role
from tutti.model.plan import Shape
from tutti.model.shapes import to_wire
from tutti.model.training import Training
from tutti.records.manifest import Kind

Wait = Callable[..., None]
STEPS, EVERY = 48, 12


class Data:
    """Demonstrations and preferences in the store of a stage, and the checkpoint that trainings begin with."""

    def __init__(self, stage: Any) -> None:
        self._stage, self.base = stage, talks.base(stage.blobs)
        long = Conversation((Message(Role.USER, "a" * 99), Message(Role.ASSISTANT, "b")), "train")
        self.made = {
            Kind.CONVERSATIONS: talks.publish(stage.blobs, Kind.CONVERSATIONS, [*talks.demonstrations(), long]),
            Kind.PREFERENCES: talks.publish(stage.blobs, Kind.PREFERENCES, talks.preferences()),
        }
        stage.blobs.put_if_absent(talks.TOKENIZER_KEY, talks.TOKENIZER.artefact)

    def training(self, program: str) -> Training:
        make = {"sft": talks.sft, "reward": talks.reward, "dpo": talks.dpo}[program]
        made = make(self.made[self.kind(program)][1], self.base, steps=STEPS)
        return replace(made, checkpoint_every=EVERY, validate_every=0)

    def kind(self, program: str) -> Kind:
        return Kind.CONVERSATIONS if program == "sft" else Kind.PREFERENCES

    def assignment(self, training: Training, *, dp: int = 1, epoch: int = 1, **more: Any) -> Assignment:
        key, digest = self.made[self.kind(training.program)]
        return Assignment(
            job="jobs/tiny",
            epoch=epoch,
            ranks=range(dp),
            shape=to_wire(Shape(dp=dp)),
            training=training.to_json(),
            dataset_manifest_key=key,
            dataset_digest=digest,
            tokenizer_key=talks.TOKENIZER_KEY,
            **more,
        )


def digests(stage: Any, epoch: int, ranks: int) -> dict[int, dict[tuple[int, str], str]]:
    """Of every step that all ranks of an epoch stored, the digest of each tensor."""
    found: dict[int, dict[tuple[int, str], str]] = {}
    stored: dict[int, int] = {}
    for (step, of, _), report in stage.plane.reports().items():
        if of == epoch:
            stored[step] = stored.get(step, 0) + 1
            found.setdefault(step, {}).update({(e.chunk, e.kind.value): e.digest.hex() for e in report.chunks})
    return {step: tensors for step, tensors in found.items() if stored[step] == ranks}


@pytest.mark.parametrize("program", ["sft", "reward", "dpo"])
def test_a_killed_rank_and_a_resumed_one_store_the_states_of_one_that_nobody_killed(
    stage: Any, wait: Wait, program: str
) -> None:
    data = Data(stage)
    training = data.training(program)
    agent = stage.agent()
    stage.plane.assign("a", data.assignment(training, dp=2))
    wait(lambda: len(digests(stage, 1, 2)) >= 1 or stage.plane.losses)
    assert not stage.plane.losses, stage.plane.losses
    os.kill(agent.pids()[1], signal.SIGKILL)
    wait(lambda: stage.plane.losses)
    kept = [report for (step, epoch, _), report in stage.plane.reports().items() if (step, epoch) == (EVERY, 1)]
    body = commit(stage, kept, training)
    resume: dict[str, Any] = {
        "resume_manifest_key": body.manifest_key,
        "resume_digest": body.state_digest,
        "resume_checkpoint": body.name,
    }
    finished = len(stage.plane.events(RANK_EVENT_FINISHED))
    stage.plane.assign("a", data.assignment(training, epoch=2, **resume))
    wait(lambda: len(stage.plane.events(RANK_EVENT_FINISHED)) == finished + 1)
    wait(lambda: sorted(digests(stage, 2, 1)) == [24, 36, 48])
    stage.plane.assign("a", data.assignment(training, epoch=3))
    wait(lambda: len(stage.plane.events(RANK_EVENT_FINISHED)) == finished + 2)
    wait(lambda: sorted(digests(stage, 3, 1)) == [12, 24, 36, 48])
    undisturbed = digests(stage, 3, 1)
    assert digests(stage, 1, 2)[EVERY] == undisturbed[EVERY]
    assert digests(stage, 2, 1) == {step: undisturbed[step] for step in (24, 36, 48)}
    notes = [each.cause for each in stage.plane.events(RANK_EVENT_DISTURBED)]
    assert any("1 longer than 25 tokens" in note for note in notes) == (program == "sft")
    report = stage.plane.reports()[STEPS, 3, 0]
    assert list(Curve.decode(report.curve).validations["step"]) == [STEPS]


def test_a_flipped_byte_in_the_reference_is_refused_and_named(stage: Any, wait: Wait) -> None:
    data = Data(stage)
    training = data.training("dpo")
    key = next(
        blob["key"] for blob in json.loads(stage.blobs.get("committer/manifests/base.0.1.json"))["body"]["blobs"]
    )
    path = next(path for path in stage.blob_folder.rglob("*") if path.is_file() and path.name == Path(key).name)
    flipped = bytearray(path.read_bytes())
    flipped[5000] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(flipped))
    stage.agent()
    stage.plane.assign("a", data.assignment(training))
    wait(lambda: stage.plane.losses)
    assert "cannot be staged" in stage.plane.losses[0].cause


def test_a_rank_says_why_its_preferences_cannot_be_learned(stage: Any, wait: Wait) -> None:
    data = Data(stage)
    ties = [each for each in talks.preferences() if each.first == 0.5]
    data.made[Kind.PREFERENCES] = talks.publish(stage.blobs, Kind.PREFERENCES, ties)
    stage.agent()
    stage.plane.assign("a", data.assignment(data.training("reward")))
    wait(lambda: stage.plane.losses)
    assert "preferences are ties, which teach nothing" in stage.plane.losses[0].cause
