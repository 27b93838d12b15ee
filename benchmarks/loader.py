"""The loader beside a raw memory map: the same shuffled rows of the same tokens, as the arrays that a step needs.

A step needs of each leaf its tokens as int32, which document each token belongs to, and which targets count. The peers
make the same arrays of one flat file of tokens, a leaf at a time: they find the documents by their last token. One
takes slices of a np.memmap, a row each, as training scripts do; the other one fancy index a leaf, the fastest that
numpy has. They have no padding, no shards and no checks. Tokens alone, as one array, are shown beside without a goal.

All only copy from the page cache, so the time on a core is measured: the wait for one says nothing about either.

Then how fast the shuffled tokens of a whole step come, and how long a rank waits that goes on in the middle of a run:
from folders on the disk to the leaves of the step, with every shard opened and checked as a rank does. Memory is the
most that a process had resident at once which read every row, mapped pages of the file included.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import data
from benchmarks.pairs import alternate, median, timed
from benchmarks.program import main, scratch
from benchmarks.resident import memory_row, nothing, peak_of
from benchmarks.table import Goal, Row, at_least, at_most, ratio_at_least
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.corpus.tokens.batch import Leaf
from tutti.corpus.tokens.loader import Loader
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training
from tutti.trainer.batches.data import TrainingData
from tutti.trainer.io.staging import shard_file

Samples = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.int32]
GOAL = ratio_at_least(0.6)
GOAL_TOKENS, GOAL_RESUME = at_least(300), at_most(50)
RESUMES = 15
TURN_ROWS = 1024


@dataclass(frozen=True)
class Case:
    """What one rank reads for a step."""

    name: str
    context: int
    shards: int
    leaves: int
    rows: int


CASES = (
    Case("a step of recipes/spine.yaml", context=256, shards=1, leaves=4, rows=2),
    Case("a larger step", context=1024, shards=2, leaves=8, rows=8),
)


def measure(quick: bool) -> list[Row]:
    """Each case beside each peer."""
    rows = [row for case in CASES for row in _rows(case, quick=quick)]
    tokens = next(row for row in rows if row.what.startswith(f"loader, {CASES[-1].name}"))
    alone = Row(
        f"loader, shuffled, {CASES[-1].name}",
        tokens.unit,
        tokens.ours,
        goal=GOAL_TOKENS,
        note=f"{tokens.note}; on one core",
    )
    return [*rows, alone, _resume(CASES[-1], quick=quick)]


def _resume(case: Case, *, quick: bool) -> Row:
    """The first leaves of a rank that goes on in the middle."""
    with scratch("loader") as folder:
        blobs = EmbeddedBlobs(Path(folder) / "blobs")
        sequences = 4096 if quick else 65_536
        model = ModelSpec(
            vocabulary=50_000, width=64, layers=1, heads=1, kv_heads=1, hidden=64, context=case.context, tied=True
        )
        made = data.make(blobs, vocabulary=50_000, context=case.context, sequences=sequences, shards=case.shards)
        staged = made.stage(Path(folder) / "cache", blobs)
        steps = case.shards * sequences // (case.leaves * case.rows)
        training = Training(
            model=model,
            optimizer=OptimizerSpec(peak_rate=1e-3, steps=steps, warmup_steps=1),
            step=StepSpec(leaves=case.leaves, rows=case.rows),
            dataset=made.digest,
            checkpoint_every=steps,
            audit_every=0,
        )

        def resumed() -> None:
            read = TrainingData([staged], training)
            assert len(read.leaves(read.first_ledger(), steps // 2, range(case.leaves))) == case.leaves

        milliseconds = [1000 * timed(resumed, time.perf_counter)() for _ in range(RESUMES)]
    return Row(
        what="loader, going on in the middle",
        unit="ms",
        ours=median(milliseconds),
        goal=GOAL_RESUME,
        note=f"step {steps // 2:,} of {steps:,}; {case.shards * sequences * case.context / 1e6:.0f} M tokens in "
        f"{case.shards} shards; on the wall",
    )


class Raw:
    """One flat file of uint16, mapped."""

    def __init__(self, path: Path, case: Case) -> None:
        self._flat = np.memmap(path, np.uint16, mode="r")
        self._context = context = case.context
        width = self._flat.itemsize
        self.sequences = (len(self._flat) - 1) // context
        self._rows = np.lib.stride_tricks.as_strided(
            self._flat, (self.sequences, context + 1), (context * width, width), writeable=False
        )

    def sliced(self, samples: Samples) -> Tokens:
        """Rows of tokens, one slice each."""
        begins = [int(sample) * self._context for sample in samples]
        return np.stack([self._flat[begin : begin + self._context + 1].astype(np.int32) for begin in begins])

    def indexed(self, samples: Samples) -> Tokens:
        """Rows of tokens, all at once."""
        return self._rows[samples].astype(np.int32)


def leaf_of(tokens: Tokens) -> Leaf:
    """With the ordinals of documents, as their last tokens tell them, and every target valid."""
    documents = np.zeros(tokens.shape, np.int32)
    np.cumsum(tokens[:, :-1] == data.END, axis=1, dtype=np.int32, out=documents[:, 1:])
    return Leaf(tokens, documents, np.ones((tokens.shape[0], tokens.shape[1] - 1), np.bool_))


def _rows(case: Case, *, quick: bool) -> list[Row]:
    with scratch("loader") as folder:
        blobs = EmbeddedBlobs(Path(folder) / "blobs")
        sequences = 4096 if quick else 16384
        made = data.make(blobs, vocabulary=50_000, context=case.context, sequences=sequences, shards=case.shards)
        staged = made.stage(Path(folder) / "cache", blobs)
        flat = Path(folder) / "tokens.bin"
        made.tokens.tofile(flat)
        loader = Loader([staged / shard_file(entry.bytes_digest) for entry in made.body.train.shards])
        raw = Raw(flat, case)
        pairs = 15 if quick else 60

        def ours(samples: Samples) -> list[Leaf]:
            return loader.batch(samples).leaves(case.rows)

        def beside(gather: Callable[[Samples], Tokens], how: str) -> Row:
            def peer(samples: Samples) -> list[Leaf]:
                return [leaf_of(gather(leaf)) for leaf in samples.reshape(case.leaves, case.rows)]

            return _row(case, loader.sequences, ours, peer, f", {how}", GOAL, pairs)

        def tokens(samples: Samples) -> list[list[Tokens]]:
            return [[loader.batch(samples).tokens]]

        def peer_tokens(samples: Samples) -> list[list[Tokens]]:
            return [[raw.indexed(samples)]]

        return [
            beside(raw.sliced, "peer: slices of a np.memmap"),
            beside(raw.indexed, "peer: a fancy index a leaf"),
            _row(case, loader.sequences, tokens, peer_tokens, ", tokens alone, peer: one fancy index", None, pairs),
            memory_row(
                f"loader, {case.name}",
                [
                    peak_of(
                        _read_shards, [staged / shard_file(each.bytes_digest) for each in made.body.train.shards], case
                    )
                ],
                [peak_of(_read_flat, flat, case)],
                f"every row once; {flat.stat().st_size / 1e6:.0f} MB of both are the mapped file, "
                f"{peak_of(nothing):.0f} MB what is loaded; peer: slices of a np.memmap",
            ),
        ]


def _shuffled(sequences: int, case: Case) -> Iterator[Samples]:
    """The rows of every step."""
    size = case.leaves * case.rows
    order = np.random.default_rng(3).permutation(sequences)
    yield from order[: len(order) // size * size].reshape(-1, size)


def _read_shards(paths: Sequence[Path], case: Case) -> None:
    loader = Loader(paths)
    for step in _shuffled(loader.sequences, case):
        loader.batch(step).leaves(case.rows)


def _read_flat(path: Path, case: Case) -> None:
    raw = Raw(path, case)
    for step in _shuffled(raw.sequences, case):
        for leaf in step.reshape(case.leaves, case.rows):
            leaf_of(raw.sliced(leaf))


Read = Callable[[Samples], Sequence[Sequence[npt.NDArray[Any]]]]
"""From the samples of a step to arrays, a few a leaf."""


def _row(case: Case, sequences: int, ours: Read, peer: Read, which: str, goal: Goal | None, pairs: int) -> Row:
    size = case.leaves * case.rows
    steps = list(_shuffled(sequences, case))
    for step in steps[:8]:
        for one, other in zip(ours(step), peer(step), strict=True):
            assert all(np.array_equal(*both) for both in zip(one, other, strict=True))
    per_turn = TURN_ROWS // size
    turns = itertools.cycle([steps[at : at + per_turn] for at in range(0, len(steps) - per_turn + 1, per_turn)])
    current = next(turns)

    def of_ours() -> float:
        nonlocal current
        current = next(turns)
        return timed(lambda: [ours(step) for step in current], time.process_time)()

    def of_peer() -> float:
        return timed(lambda: [peer(step) for step in current], time.process_time)()

    found = alternate(of_ours, of_peer, pairs=pairs, warmups=len(steps) // per_turn)
    tokens = per_turn * size * case.context / 1e6
    return Row.of_speed(
        what=f"loader, {case.name}{which}",
        unit="M tokens/s",
        amount=tokens,
        pairs=found,
        goal=goal,
        note=f"{case.leaves} leaves of {case.rows} rows of {case.context + 1} tokens; shards: {case.shards}",
    )


if __name__ == "__main__":
    main("loader", __doc__, measure)
