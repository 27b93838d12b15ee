"""Curves: the loss and the gradient norm of each step of small trainings on the text of this repository.

Promises: a training has the seed and the recipe that are listed here, and its steps are the product's own. The limits
of `tutti.model.spikes` were chosen by CHOSEN, and by trainings of recipes/tiny.yaml on the documentation of Python.

`python -m benchmarks.curves chosen|held-out FILE` records them; the held-out ones take about four minutes of CPU.
"""

import multiprocessing
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.program import ROOT, scratch
from tutti.corpus.tokens.loader import Loader
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard
from tutti.model.chunks import Layout
from tutti.model.plan import Plan, Shape
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.step import RankStep

Curve = npt.NDArray[np.float32]
"""Loss in nats a token and gradient norm of each step, [steps, 2]."""
END, CONTEXT = 256, 64


@dataclass(frozen=True)
class Recipe:
    """A training of one rank; `more` are fields of its optimizer."""

    seed: int
    steps: int = 1300
    leaves: int = 1
    rows: int = 8
    layers: int = 2
    rate: float = 3e-3
    warmup: int = 50
    more: Mapping[str, Any] = field(default_factory=dict)


def _eight(seed: int) -> dict[str, Recipe]:
    """Eight recipes with 10,400 steps, with seeds from this one on."""
    recipes = (
        Recipe(seed, more={"schedule": "wsd"}),
        Recipe(seed + 1, rows=4, rate=6e-3, warmup=20),
        Recipe(seed + 2, rate=1e-3),
        Recipe(seed + 3, leaves=2, rows=2, warmup=10),
        Recipe(seed + 4, rows=4, rate=1e-2, more={"schedule": "wsd", "beta2": 0.99}),
        Recipe(seed + 5, rows=6, layers=1, warmup=0),
        Recipe(seed + 6, warmup=100),
        Recipe(seed + 7, rate=2e-3, warmup=30, more={"schedule": "wsd"}),
    )
    return {f"h{recipe.seed}": recipe for recipe in recipes}


CHOSEN = {
    "a": Recipe(seed=1, steps=600),
    "b": Recipe(seed=2, steps=600, rows=4, rate=1e-2, warmup=10),
    "c": Recipe(seed=3, steps=600, leaves=2, rows=2, rate=1e-3, more={"schedule": "wsd"}),
    **_eight(11),
    **_eight(21),
}
"""The last sixteen were held out at first, eight at a time. Of 10,400 steps each, three and then two were taken for a
spike, all of them single steps, and the limits of a single step were raised.
"""
HELD_OUT = _eight(31)


def record(recipes: Mapping[str, Recipe], *, processes: int = 2) -> dict[str, Curve]:
    """The curves of these trainings, by name."""
    with scratch("curves") as folder:
        shard = Path(folder) / "shard.bin"
        shard.write_bytes(_shard())
        spawn = multiprocessing.get_context("spawn")
        with spawn.Pool(processes) as pool:
            given = [(shard, recipe) for recipe in recipes.values()]
            return dict(zip(recipes, pool.starmap(curve, given, chunksize=1), strict=True))


def curve(shard: Path, recipe: Recipe) -> Curve:
    """The curve of one training on the sequences of a shard."""
    loader = Loader([shard])
    model = ModelSpec(
        vocabulary=END + 1, context=CONTEXT, width=32, layers=recipe.layers, heads=2, kv_heads=2, hidden=96
    )
    optimizer = OptimizerSpec(peak_rate=recipe.rate, steps=recipe.steps, warmup_steps=recipe.warmup, **recipe.more)
    spec = StepSpec(leaves=recipe.leaves, rows=recipe.rows, seed=recipe.seed)
    step = RankStep(
        model, optimizer, spec, Plan(Layout(model), Shape(1), recipe.leaves), rank=0, epoch=1, audit_every=0
    )
    step.initialize()
    share = DatasetShare("blake3:" + "0" * 64, sequences=loader.sequences, weight=1, start=0)
    span = Span(from_step=0, datasets=(share,), seed=recipe.seed, leaves=recipe.leaves, rows_per_leaf=recipe.rows)
    return np.array(list(_steps(step, span, loader, recipe)), np.float32)


def _steps(step: RankStep, span: Span, loader: Loader, recipe: Recipe) -> Iterator[tuple[float, float]]:
    for number in range(1, recipe.steps + 1):
        batch = loader.batch(span.samples(number - 1, *range(recipe.leaves)).samples)
        result = step.run(number, dict(enumerate(batch.leaves(recipe.rows))))
        yield result.loss, result.gradient_norm


def _shard() -> bytes:
    """The bytes of the Python modules of the libraries as tokens, a document a file."""
    texts = [path.read_bytes() for path in sorted((ROOT / "libs").rglob("*.py")) if "contracts" not in path.parts]
    documents = [np.frombuffer(text, np.uint8).astype(np.uint16) for text in texts if text]
    tokens = np.concatenate([part for document in documents for part in (document, np.array([END], np.uint16))])
    lengths = [len(document) + 1 for document in documents]
    used = (len(tokens) - 1) // CONTEXT * CONTEXT + 1
    starts = np.cumsum([0, *lengths[:-1]])
    data, _ = encode_token_shard(
        TokenRun(
            tokens=tokens[:used],
            tokens_used=used,
            starts=starts[starts < used],
            doc_ids=[f"{number:064x}" for number in range(int((starts < used).sum()))],
            context=CONTEXT,
            vocabulary=END + 1,
            eos=END,
            first_sample=0,
        )
    )
    return data


if __name__ == "__main__":
    made: dict[str, Any] = dict(record({"chosen": CHOSEN, "held-out": HELD_OUT}[sys.argv[1]]))
    np.savez_compressed(sys.argv[2], **made)
