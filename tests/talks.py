"""Conversations, preferences and a first checkpoint in a blob store, for tests of what is trained on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tutti.backbone.blobs import Blobs
from tutti.backbone.files import RealFiles
from tutti.checkpoints.keys import ShardName, manifest_key, manifest_of
from tutti.checkpoints.manifest import build_manifest
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.writer import Snapshot, describe, plan_of, store
from tutti.corpus.conversations.conversations import (
    Conversation,
    Message,
    Preference,
    Record,
    Role,
    prompt_digest,
    to_lines,
)
from tutti.corpus.conversations.template import CHAT_1
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.model.plan import Shape
from tutti.model.programs.dpo import DpoParameters
from tutti.model.programs.grpo import GrpoParameters, RewardFunction
from tutti.model.programs.ppo import PpoParameters
from tutti.model.programs.reward import RewardParameters
from tutti.model.programs.sft import SftParameters
from tutti.model.results import Scalars
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.step import RankStep
from tutti.model.training import Initial, RoleModel, Training
from tutti.records.canonical import JsonValue, bytes_digest
from tutti.records.manifest import Kind, Manifest
from tutti.tokenization.bpe import train_bpe
from tutti.trainer.batches.staged import Staged
from tutti.trainer.io.staging import Cache

CONTEXT = 24
TOKENIZER = train_bpe(["a b c d e f g h"] * 2, vocabulary=268, reserved=CHAT_1.tokens)
TOKENIZER_KEY = "tokenization/tokenizers/t.json"
MODEL = ModelSpec(
    vocabulary=TOKENIZER.vocabulary, width=32, layers=2, heads=2, kv_heads=2, hidden=64, context=CONTEXT, qk_norm=True
)
STEP = StepSpec(leaves=8, rows=4, seed=5)
NONE = "blake3:" + "0" * 64


def asked(number: int) -> tuple[Message, ...]:
    letters = np.random.default_rng([number, 1]).choice(list("abcdefgh"), 4)
    return (Message(Role.USER, "".join(letters)),)


def answer(prompt: Sequence[Message]) -> str:
    """The letters in their order: what a model can learn to say."""
    return "".join(sorted(prompt[-1].content))


def demonstrations(count: int = 60) -> list[Conversation]:
    prompts = {prompt_digest(asked(number)): asked(number) for number in range(count)}
    return [
        Conversation((*prompt, Message(Role.ASSISTANT, answer(prompt))), "train" if at % 3 else "final")
        for at, prompt in enumerate(prompts.values())
    ]


def preferences(count: int = 60) -> list[Preference]:
    """The letters in their order are preferred to the prompt again; every seventh is a tie."""
    found = []
    for number in range(count):
        prompt, first = asked(number), 0.5 if number % 7 == 6 else 0.9 if number % 2 else 0.1
        answers = (answer(prompt), prompt[0].content[::-1] + "hh")
        found.append(Preference(prompt, answers if number % 2 else (answers[1], answers[0]), first, 1 + number % 3))
    return found


def publish(blobs: Blobs, kind: Kind, records: Sequence[Record]) -> tuple[str, str]:
    """Put lines and their manifest; the manifest's key and its content digest."""
    data = to_lines(records)
    key = f"annotation/lines/{bytes_digest(data).removeprefix('blake3:')}.jsonl"
    lines: dict[str, JsonValue] = {
        "blob": key,
        "bytes": len(data),
        "bytes_digest": bytes_digest(data),
        "count": len(records),
    }
    manifest = Manifest(kind, {"lines": lines}, (), "test")
    blobs.put_if_absent(key, data)
    blobs.put_if_absent(f"annotation/manifests/{manifest.content_digest[7:]}.json", manifest.encode())
    return f"annotation/manifests/{manifest.content_digest[7:]}.json", manifest.content_digest


@dataclass(frozen=True)
class Base:
    """A checkpoint of random parameters: its name, and the digest of its state."""

    name: str
    state_digest: str


def base(
    blobs: Blobs, model: ModelSpec = MODEL, job: str = "base", head: torch.Tensor | None = None, **changes: Any
) -> Base:
    """Put a checkpoint of this model, as a job of one rank would; `changes` are those of its training."""
    training = replace(Training(model, OptimizerSpec(1e-3, 1), STEP, NONE, 1), **changes)
    plan = plan_of(training, Shape(1))
    torch.set_num_threads(1)
    step = RankStep(model, training.optimizer, STEP, plan, rank=0, epoch=1, audit_every=0)
    step.initialize()
    if model.scalar_head:  # it begins at zero, which tells no answers apart
        start = plan.layout.uses[-1].state_start
        step._state[0, start : start + model.width] = torch.linspace(-1, 1, model.width) if head is None else head
    data = bytearray(step.snapshot_size())
    step.snapshot_into(memoryview(data))
    ledger = Ledger((Span(0, (DatasetShare(NONE, 1, 1, 0),), 5, STEP.leaves, STEP.rows),))
    scalars = StateScalars(Scalars(step=1), STEP.leaves * STEP.rows, ledger)
    name = ShardName(job, 0, 1, 1, 0)
    report = describe(memoryview(data), Snapshot(name, "nodes/a", Shape(1), training, {}, scalars))
    store(blobs, report, memoryview(data))
    body = build_manifest([report], training=training, parent="", verified_by=["test"])
    blobs.put_if_absent(manifest_key(job, 0, 1), body.manifest(producer="test").encode())
    return Base(body.name, body.state_digest)


def sft(dataset: str, base: Base, *, steps: int = 4, part: str = "") -> Training:
    return Training(
        MODEL,
        OptimizerSpec(peak_rate=3e-3, steps=steps, warmup_steps=1, weight_decay=0.0),
        STEP,
        dataset,
        checkpoint_every=2,
        validate_every=2,
        audit_every=2,
        program="sft",
        initial=Initial(base.name, base.state_digest),
        tokenizer=TOKENIZER.version,
        template=CHAT_1.digest,
        part=part,
        program_parameters=SftParameters(held_out=0.1),
    )


def reward(dataset: str, base: Base, *, steps: int = 4) -> Training:
    parameters = RewardParameters(held_out=0.1, pooling="mean")
    model = replace(MODEL, scalar_head=True)
    return replace(sft(dataset, base, steps=steps), model=model, program="reward", program_parameters=parameters)


def dpo(dataset: str, base: Base, *, steps: int = 4) -> Training:
    parameters = DpoParameters(held_out=0.1, beta=0.1)
    models = (RoleModel("reference", base.name, base.state_digest),)
    return replace(sft(dataset, base, steps=steps), program="dpo", models=models, program_parameters=parameters)


def grpo(dataset: str, base: Base, *, reward: Base | None = None, steps: int = 6, **changes: Any) -> Training:
    """Three iterations of two steps each."""
    parameters = GrpoParameters(prompts=8, group=4, tokens=6, epochs=2, functions=(RewardFunction("ended"),))
    models = [RoleModel("reference", base.name, base.state_digest)]
    models += [RoleModel("reward", reward.name, reward.state_digest)] if reward else []
    return replace(
        sft(dataset, base, steps=steps),
        program="grpo",
        validate_every=0,
        models=tuple(models),
        program_parameters=replace(parameters, **changes),
    )


def ppo(dataset: str, base: Base, critic: Base, *, steps: int = 6, **changes: Any) -> Training:
    """The same with a value model that begins as the critic, which gives the rewards, too."""
    made = grpo(dataset, base, reward=critic, steps=steps)
    return replace(
        made,
        model=replace(MODEL, value_model=True),
        program="ppo",
        models=(RoleModel("critic", critic.name, critic.state_digest), *made.models),
        program_parameters=replace(PpoParameters(prompts=8, group=4, tokens=6, epochs=2), **changes),
    )


def key_of(tokenizer: str) -> str:
    """The blob of a tokenizer by its version: the one of the talks, or another that a test stored."""
    return TOKENIZER_KEY if tokenizer == TOKENIZER.version else tokenizer_key(tokenizer)


def staged(blobs: Blobs, folder: Path, key: str, training: Training) -> tuple[Staged, Path]:
    """What an agent brings for a training, and the folder of the checkpoint that it begins with."""
    cache = Cache(folder, blobs, RealFiles())
    blobs.put_if_absent(TOKENIZER_KEY, TOKENIZER.artefact)
    datasets = cache.datasets({training.dataset: key})
    assert training.initial is not None
    job, line, number = training.initial.checkpoint.removeprefix("checkpoints/").split("/")
    (initial,) = cache.checkpoints({training.initial.state_digest: manifest_key(job, int(line), int(number))})
    wanted = {each.state_digest: manifest_of(each.checkpoint) for each in training.models}
    folders = dict(zip(wanted, cache.checkpoints(wanted), strict=True))
    models = {each.role: folders[each.state_digest] for each in training.models}
    return Staged(datasets, cache.tokenizer(key_of(training.tokenizer), training.tokenizer), models), initial
