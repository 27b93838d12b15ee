"""A sample of a checkpoint: the first, the second of the same model, and two models in turn.

Ours asks the resident process, which keeps the model; the peer fetches the checkpoint and loads it for each sample, in
a process that has torch imported already, as Tutti did before. Prompt and texts are the same, and are compared.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from benchmarks.pairs import alternate, median, timed
from benchmarks.platforms import pss
from benchmarks.program import WentWrong, main, scratch
from benchmarks.table import Row, ratio_at_most
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.manifest import build_manifest
from tutti.checkpoints.reader import stage
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.writer import Snapshot, describe, plan_of, store
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.inference.models import NotLoaded, Wanted
from tutti.inference.sampling import Sampling
from tutti.model.plan import Shape
from tutti.model.results import Scalars
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.platform.resident import Resident
from tutti.sampling.continuing import Continued, continue_texts
from tutti.tokenization.bpe import train_bpe

MODEL = ModelSpec(vocabulary=4096, width=256, layers=6, heads=4, kv_heads=4, hidden=704, context=128)
TOKENIZER = train_bpe(["the module returns a copy of the number of the items"] * 2, vocabulary=300)
STEP = StepSpec(leaves=1, rows=1)
DATASET = "blake3:" + "0" * 64
TOKENS = 16
GOAL = 0.5
PLENTY = 1 << 30


@dataclass(frozen=True)
class Stored:
    """A checkpoint in the store."""

    key: str
    manifest: bytes


def measure(quick: bool) -> list[Row]:
    """Samples of 16 tokens by a model of 7 million parameters on one thread."""
    pairs = 3 if quick else 20
    with scratch("samples") as name:
        blobs = EmbeddedBlobs(Path(name) / "blobs")
        first, second = (_checkpoint(blobs, f"job-{number}", 0.02 * number) for number in (1, 2))
        one = 4 * plan_of(_training(0.02), Shape(1)).layout.elements
        with closing(_resident()) as kept, closing(_resident()) as loads:
            begun = timed(lambda: _kept(kept, blobs, first, PLENTY))()
            _loaded(loads, blobs, first)
            again = alternate(
                timed(lambda: _kept(kept, blobs, first, PLENTY)),
                timed(lambda: _loaded(loads, blobs, first)),
                pairs=pairs,
            )
            turns = alternate(
                timed(lambda: [_kept(kept, blobs, each, 2 * one) for each in (first, second)]),
                timed(lambda: [_loaded(loads, blobs, each) for each in (first, second)]),
                pairs=pairs,
            )
            for each in (first, second):
                if _kept(kept, blobs, each, PLENTY) != _loaded(loads, blobs, each):
                    raise WentWrong("the resident process wrote another text than a process that loads the model anew")
            memory = pss(kept.run(os.getpid))
    how = f"{one / 2**20:.0f} MiB of parameters, {TOKENS} tokens, {pairs} pairs; peer: fetched, verified, loaded anew"
    return [
        Row("first sample: process, torch, fetch, load", unit="ms", ours=1000 * begun),
        Row(
            "second sample of the same checkpoint",
            unit="ms",
            ours=1000 * median(again.ours),
            peer=1000 * median(again.peer),
            ratio=again.cost(),
            goal=ratio_at_most(GOAL),
            note=how,
        ),
        Row(
            "two checkpoints in turn, both kept",
            unit="ms",
            ours=1000 * median(turns.ours),
            peer=1000 * median(turns.peer),
            ratio=turns.cost(),
            note="both samples together",
        ),
        Row("memory of the resident process, two models", unit="MiB", ours=memory, note="PSS, torch included"),
    ]


def _resident() -> Resident:
    return Resident("models", idle_seconds=600, silence_seconds=300)


def _kept(resident: Resident, blobs: EmbeddedBlobs, stored: Stored, most_bytes: int) -> list[Continued]:
    try:
        return _sampled(resident, Wanted(stored.manifest, None, most_bytes))
    except NotLoaded:
        return _staged(blobs, stored, lambda folder: _sampled(resident, Wanted(stored.manifest, folder, most_bytes)))


def _loaded(resident: Resident, blobs: EmbeddedBlobs, stored: Stored) -> list[Continued]:
    return _staged(blobs, stored, lambda folder: _sampled(resident, Wanted(stored.manifest, folder, 0)))


def _staged(blobs: EmbeddedBlobs, stored: Stored, sample: Callable[[Path], list[Continued]]) -> list[Continued]:
    with tempfile.TemporaryDirectory() as folder:
        stage(blobs, stored.key, Path(folder))
        return sample(Path(folder))


def _sampled(resident: Resident, wanted: Wanted) -> list[Continued]:
    return resident.run(continue_texts, wanted, TOKENIZER, ["the module"], Sampling(seed=1), TOKENS)


def _training(std: float) -> Training:
    return Training(replace(MODEL, init_std=std), OptimizerSpec(1e-3, 1), STEP, DATASET, 1)


def _checkpoint(blobs: EmbeddedBlobs, job: str, std: float) -> Stored:
    """Store a checkpoint of random parameters."""
    training = _training(std)
    torch.set_num_threads(1)
    plan = plan_of(training, Shape(1))
    step = RankStep(training.model, training.optimizer, STEP, plan, rank=0, epoch=1, audit_every=0)
    step.initialize()
    data = bytearray(step.snapshot_size())
    step.snapshot_into(memoryview(data))
    ledger = Ledger((Span(0, (DatasetShare(DATASET, 1, 1, 0),), 5, STEP.leaves, STEP.rows),))
    scalars = StateScalars(Scalars(step=1), STEP.leaves * STEP.rows, ledger)
    name = ShardName(job, 0, 1, 1, 0)
    report = describe(memoryview(data), Snapshot(name, "nodes/a", Shape(1), training, {}, scalars))
    store(blobs, report, memoryview(data))
    body = build_manifest([report], training=training, parent="", verified_by=["benchmark"])
    manifest = body.manifest(producer="benchmark").encode()
    blobs.put_if_absent(body.manifest_key, manifest)
    return Stored(body.manifest_key, manifest)


if __name__ == "__main__":
    main("samples", __doc__, measure)
