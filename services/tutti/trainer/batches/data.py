"""The data of a rank: batches by step and leaf, from staged datasets.

Step s (counted from 1) reads what the sampler calls step s - 1, so a state after N steps has read all steps before N.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.corpus.tokens.batch import Leaf, PackedSequenceBatch
from tutti.corpus.tokens.dataset import DatasetBody, Split
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.loader import Loader
from tutti.corpus.tokens.mixture import MixedLoader
from tutti.model.training import Training
from tutti.records.manifest import Kind, Manifest
from tutti.trainer.failures import RankFailure, Reason
from tutti.trainer.io.staging import MANIFEST, shard_file

VALIDATION_SEQUENCES = 2048
"""At most the first so many validation sequences are measured."""


class TrainingData:
    """Both splits of a training's own dataset and the training splits of those mixed with it."""

    def __init__(self, folders: Sequence[Path], training: Training) -> None:
        """`folders` in the order of `training.datasets`.

        Raises RankFailure when the datasets are not those of the training or cannot be mixed, CorpusError when one is
        damaged.
        """
        if len(folders) != len(training.datasets):
            raise _refused(f"{len(folders)} datasets are staged; the training reads {len(training.datasets)}")
        bodies = [_body(folder, digest, training) for folder, digest in zip(folders, training.datasets, strict=True)]
        self.body = bodies[0]
        for body, digest in zip(bodies, training.datasets, strict=True):
            if body.tokenizer_version != self.body.tokenizer_version:
                raise _refused(
                    f"{digest} was encoded by the tokenizer {body.tokenizer_version}, {training.dataset} by "
                    f"{self.body.tokenizer_version}; mix datasets of one tokenizer"
                )
        self._rows = training.step.rows
        loaders = [_loader(folder, body.train) for folder, body in zip(folders, bodies, strict=True)]
        self._train = MixedLoader(dict(zip(training.datasets, loaders, strict=True)))
        self._validation = _loader(folders[0], self.body.validation) if self.body.validation.shards else None
        self._training = training

    note = ""

    def prepare(self, step: object, number: int) -> None:
        """Nothing: batches do not depend on the state."""

    def first_ledger(self) -> Ledger:
        """The ledger of a job that starts from nothing."""
        sequences = {digest: loader.sequences for digest, loader in self._train.loaders.items()}
        return Ledger((self._training.first_span(sequences),))

    def leaves(self, ledger: Ledger, step: int, wanted: Sequence[int]) -> dict[int, Leaf]:
        """Some leaves of a step that is counted from 1, read at once."""
        span = ledger.span_at(step - 1)
        versions = [share.dataset_version for share in span.datasets]
        batch = self._train.batch(span.samples(step - 1, *wanted), versions)
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


def _body(folder: Path, digest: str, training: Training) -> DatasetBody:
    """The body of the manifest of a staged dataset. Raises RankFailure when it is not that of the training."""
    manifest = Manifest.decode((folder / MANIFEST).read_bytes(), expected=Kind.DATASET)
    body, model = DatasetBody.read(manifest), training.model
    if (manifest.content_digest, body.context) != (digest, training.length) or body.vocabulary > model.vocabulary:
        raise _refused(
            f"the staged dataset is {manifest.content_digest} with rows of {body.context} tokens and a vocabulary of "
            f"{body.vocabulary}; the training expects {digest}, {training.length} and at most {model.vocabulary}"
        )
    return body


def _refused(words: str) -> RankFailure:
    return RankFailure(Reason.DATA_REFUSED, words)


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
        np.concatenate([batch.packed, np.zeros(missing, np.bool_)]),
    )


def _stacked(first: npt.NDArray[np.int32], second: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    parts: Sequence[npt.NDArray[np.int32]] = (first, second)
    return np.concatenate(parts)
