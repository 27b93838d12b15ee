"""The loader beside a raw memory map: the same shuffled rows of the same tokens, as int32.

Two peers read one flat file, with no document boundaries, no lengths and no checks: slices of a np.memmap, a row each,
as training scripts do; and one fancy index for a whole batch, the fastest that numpy can. All only copy from the page
cache, so the time on a core is measured: the wait for one says nothing about either.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import data
from benchmarks.pairs import alternate, median, timed
from benchmarks.program import main, scratch
from benchmarks.table import Row, ratio_at_least
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.corpus.loader import Loader
from tutti.trainer.staging import shard_file

CONTEXT = 1024
SHARDS = 2
GOAL = 0.6


def measure(quick: bool) -> list[Row]:
    sequences = 4096 if quick else 16384
    rows = []
    with scratch("loader") as folder:
        blobs = EmbeddedBlobs(Path(folder) / "blobs")
        made = data.make(blobs, vocabulary=50_000, context=CONTEXT, sequences=sequences, shards=SHARDS)
        staged = made.stage(Path(folder) / "cache", blobs)
        flat = Path(folder) / "tokens.bin"
        made.tokens.tofile(flat)
        loader = Loader([staged / shard_file(entry.bytes_digest) for entry in made.body.train.shards])
        raw = Raw(flat, SHARDS * sequences)
        for size, name in ((64, "batches of 64 rows"), (2, "leaves of 2 rows")):
            for gather, how in ((raw.sliced, "slices of a np.memmap"), (raw.indexed, "one fancy index")):
                what = f"loader, {name}, beside {how}"
                rows.append(_row(what, loader, gather, size=size, pairs=15 if quick else 60))
    return rows


class Raw:
    """One flat file of uint16, mapped."""

    def __init__(self, path: Path, sequences: int) -> None:
        self._flat = np.memmap(path, np.uint16, mode="r")
        width = self._flat.itemsize
        self._rows = np.lib.stride_tricks.as_strided(
            self._flat, (sequences, CONTEXT + 1), (CONTEXT * width, width), writeable=False
        )

    def sliced(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        return np.stack(
            [self._flat[sample * CONTEXT : sample * CONTEXT + CONTEXT + 1].astype(np.int32) for sample in samples]
        )

    def indexed(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        return self._rows[samples].astype(np.int32)


Gather = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int32]]


def _row(what: str, loader: Loader, raw: Gather, *, size: int, pairs: int) -> Row:
    samples = np.random.default_rng(3).permutation(loader.sequences)
    batches = samples[: len(samples) // size * size].reshape(-1, size)[:2048]
    for batch in batches[:8]:
        assert np.array_equal(loader.batch(batch).tokens, raw(batch))
    per_turn = max(1, 1024 // size)
    turns = itertools.cycle([batches[start : start + per_turn] for start in range(0, len(batches), per_turn)])
    current: list[npt.NDArray[np.int64]] = []

    def over(gather: Callable[[npt.NDArray[np.int64]], object], chosen: Sequence[npt.NDArray[np.int64]]) -> None:
        for batch in chosen:
            gather(batch)

    def ours() -> float:
        current[:] = next(turns)
        return timed(lambda: over(loader.batch, current), time.process_time)()

    def peer() -> float:
        return timed(lambda: over(raw, current), time.process_time)()

    found = alternate(ours, peer, pairs=pairs, warmups=len(batches) // per_turn)
    tokens = per_turn * size * CONTEXT / 1e6
    return Row(
        what=what,
        unit="M tokens/s",
        ours=tokens / median(found.ours),
        peer=tokens / median(found.peer),
        ratio=found.speed(),
        goal=ratio_at_least(GOAL),
        note=f"rows of {CONTEXT + 1} tokens, {SHARDS} shards; as int32",
    )


if __name__ == "__main__":
    main("loader", __doc__, measure)
