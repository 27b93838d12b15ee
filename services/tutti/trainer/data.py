"""The data of a rank: batches by step and leaf, from a staged dataset.

Step s (counted from 1) reads what the sampler calls step s - 1, so a state after N steps has read all steps before N.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.corpus.batch import Leaf, PackedSequenceBatch
from tutti.corpus.dataset import DatasetBody, Split
from tutti.corpus.ledger import Ledger
from tutti.corpus.loader import Loader
from tutti.corpus.manifest import Kind, Manifest
from tutti.corpus.sampler import DatasetShare, Span
from tutti.model.training import Training
from tutti.trainer.failures import RankFailure, Reason
from tutti.trainer.staging import MANIFEST, shard_file

VALIDATION_SEQUENCES = 2048
"""At most the first so many validation sequences are measured."""


class TrainingData:
    """Both splits of one dataset, opened for one training."""

    def __init__(self, folder: Path, training: Training) -> None:
        """Raises RankFailure when the dataset is not the one of the training, CorpusError when it is damaged."""
        manifest = Manifest.decode((folder / MANIFEST).read_bytes(), expected=Kind.DATASET)
        self.body = DatasetBody.read(manifest)
        model, step = training.model, training.step
        seen = (manifest.content_digest, self.body.context)
        expected = (training.dataset, model.context)
        if seen != expected or self.body.vocabulary > model.vocabulary:
            raise RankFailure(
                Reason.DATA_REFUSED,
                f"the staged dataset is {seen[0]} with rows of {seen[1]} tokens and a vocabulary of "
                f"{self.body.vocabulary}; the training expects {expected[0]}, {expected[1]} and at most "
                f"{model.vocabulary}",
            )
        self._rows = step.rows
        self._train = _loader(folder, self.body.train)
        self._validation = _loader(folder, self.body.validation) if self.body.validation.shards else None
        self._training = training

    def first_ledger(self) -> Ledger:
        """What a job that starts from nothing reads."""
        step = self._training.step
        share = DatasetShare(self._training.dataset, sequences=self._train.sequences, weight=1, start=0)
        return Ledger(
            (Span(from_step=0, datasets=(share,), seed=step.seed, leaves=step.leaves, rows_per_leaf=step.rows),)
        )

    def leaves(self, ledger: Ledger, step: int, wanted: Sequence[int]) -> dict[int, Leaf]:
        """Some leaves of a step that is counted from 1, read at once."""
        batch = self._train.batch(ledger.samples(step - 1, *wanted).samples)
        return dict(zip(wanted, batch.leaves(self._rows), strict=True))

    @property
    def validation_leaves(self) -> int:
        if self._validation is None:
            return 0
        return math.ceil(min(self._validation.sequences, VALIDATION_SEQUENCES) / self._rows)

    def validation_leaf(self, leaf: int) -> PackedSequenceBatch:
        """Rows `leaf * rows` on of the validation split; beyond its end rows of padding, which count nothing."""
        assert self._validation is not None
        first = leaf * self._rows
        end = min(first + self._rows, self._validation.sequences, VALIDATION_SEQUENCES)
        batch = self._validation.batch(np.arange(first, end, dtype=np.int64))
        return _padded(batch, self._rows)

    def bits_per_byte(self, nats: float, tokens: int) -> float | None:
        """From the sum over `tokens` targets; the bytes they stand for are the split's, in proportion."""
        split = self.body.validation
        if tokens == 0 or split.targets == 0 or split.text_bytes == 0:
            return None
        return nats / math.log(2) / (split.text_bytes * (tokens / split.targets))


def _loader(folder: Path, split: Split) -> Loader:
    return Loader([folder / shard_file(entry.bytes_digest) for entry in split.shards])


def _padded(batch: PackedSequenceBatch, rows: int) -> PackedSequenceBatch:
    missing = rows - batch.rows
    if missing == 0:
        return batch
    return PackedSequenceBatch(
        _stacked(batch.tokens, np.zeros((missing, batch.tokens.shape[1]), np.int32)),
        np.concatenate([batch.lengths, np.zeros(missing, np.int64)]),
        batch.boundaries,
    )


def _stacked(first: npt.NDArray[np.int32], second: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    parts: Sequence[npt.NDArray[np.int32]] = (first, second)
    return np.concatenate(parts)
