"""Samples that are rows of their own: conversations or pairs of answers, one sample a row or two, positions from 0.

They are rendered once, when a rank starts. Which of them are trained on, which are measured, and which are left out
follows from the lines, the tokenizer and the training alone.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tutti.corpus.conversations.rendered import Rendered, Renderer
from tutti.corpus.conversations.renderers import renderer_of as renderer_by
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.records.canonical import keyed_bytes
from tutti.records.errors import CorpusError
from tutti.records.figures import LEFT_OUT, READ
from tutti.records.manifest import Kind, Manifest
from tutti.trainer.batches.staged import Staged
from tutti.trainer.failures import RankFailure, Reason
from tutti.trainer.io.staging import LINES, MANIFEST
from tutti.trainer.metrics import Metrics

HELD_OUT_SAMPLES = 2048
"""At most the first so many samples that are held out are measured."""
SHOWN = 5
REFUSED = "that the chat template refuses"


@dataclass(frozen=True)
class RowBatch:
    """Rows of a leaf: `tokens` int32 [rows, length + 1], `valid` bool [rows, length]; each row is one document."""

    tokens: npt.NDArray[np.int32]
    valid: npt.NDArray[np.bool_]

    @property
    def documents(self) -> npt.NDArray[np.int32]:
        return np.zeros_like(self.tokens)


class Sample(Protocol):
    """The interface of a sample: `key` decides whether it is held out."""

    @property
    def key(self) -> str: ...


S = TypeVar("S", bound=Sample)
R = TypeVar("R", bound=RowBatch)


@dataclass(frozen=True)
class LeftOut:
    """Lines that make no sample, by number from 1, and why."""

    why: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines[:SHOWN]))
        more = f" and {len(self.lines) - SHOWN} more" if len(self.lines) > SHOWN else ""
        return f"{len(self.lines)} {self.why} (line {shown}{more})"


@dataclass
class Reading(Generic[S]):
    """Samples as they are read, and what is left out of `what` by its reason."""

    what: str
    samples: list[S] = field(default_factory=list)
    lines: int = 0
    _left_out: dict[str, list[int]] = field(default_factory=dict)

    def leave_out(self, why: str, line: int) -> None:
        self._left_out.setdefault(why, []).append(line)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        return tuple(LeftOut(why, tuple(lines)) for why, lines in self._left_out.items())

    @property
    def note(self) -> str:
        """A text about the samples that were left out; "" for none."""
        if not self._left_out:
            return ""
        return f"of {self.lines} {self.what} are left out: {'; '.join(map(str, self.left_out))}"

    def require(self) -> None:
        """Raises RankFailure where no sample is left."""
        if not self.samples:
            raise refused(self.note or f"there are no {self.what}")


class SampleData(ABC, Generic[S, R]):
    """The samples of a training in the order of their lines, split by their keys, read in the sampler's order.

    They are the batches of a program, and do not depend on the state. `rows` is how many rows of a leaf a sample takes.
    """

    def __init__(self, training: Training, reading: Reading[S], *, held_out: float, rows: int) -> None:
        """Raises RankFailure where nothing is left to train on, or a leaf does not hold whole samples."""
        if training.step.rows % rows:
            raise refused(f"a leaf of {training.step.rows} rows; expected a multiple of {rows}, the rows of a sample")
        reading.require()
        self.note, self.training, self._per_leaf = reading.note, training, training.step.rows // rows
        self._counts = {READ: float(reading.lines), LEFT_OUT: float(reading.lines - len(reading.samples))}
        measured = [_drawn(each.key) < held_out for each in reading.samples]
        self.train = [each for each, out in zip(reading.samples, measured, strict=True) if not out]
        self.held_out = [each for each, out in zip(reading.samples, measured, strict=True) if out][:HELD_OUT_SAMPLES]
        if not self.train:
            raise refused(f"all {len(reading.samples)} {reading.what} are held out; lower held_out or give more")

    def counted(self, found: Metrics) -> Metrics:
        """The same metrics beside how many samples were read, and how many of them were left out."""
        return replace(found, named={**found.named, **self._counts})

    def first_ledger(self) -> Ledger:
        """Each sample is read once an epoch, in the sampler's order."""
        step, share = self.training.step, DatasetShare(self.training.dataset, len(self.train), weight=1, start=0)
        return Ledger((Span(0, (share,), step.seed, step.leaves, self._per_leaf),))

    def prepare(self, step: RankStep, number: int) -> None:
        """Nothing, unless a program needs the state at hand."""

    def leaves(self, ledger: Ledger, step: int, wanted: Sequence[int]) -> Mapping[int, R]:
        """Return the batches of these leaves of a step that is counted from 1, by leaf."""
        return {
            leaf: self.batch([self.train[at] for at in ledger.samples(step - 1, leaf).samples.tolist()])
            for leaf in wanted
        }

    @property
    def held_out_leaves(self) -> int:
        return math.ceil(len(self.held_out) / self._per_leaf)

    def held_out_leaf(self, leaf: int) -> R:
        """Return the batch of a leaf of those that are held out; the last leaf may have fewer samples."""
        return self.batch(self.held_out[leaf * self._per_leaf : (leaf + 1) * self._per_leaf])

    @abstractmethod
    def batch(self, samples: Sequence[S]) -> R:
        """Return these samples as the rows of a leaf; rows that are left are padding."""


def refused(words: str) -> RankFailure:
    return RankFailure(Reason.DATA_REFUSED, words)


def lines_of(staged: Staged, training: Training, kind: Kind) -> bytes:
    """Return the lines that a training reads. Raises RankFailure where they are not those that it names."""
    (folder,) = staged.datasets
    manifest = Manifest.decode((folder / MANIFEST).read_bytes(), expected=kind)
    if manifest.content_digest != training.dataset:
        raise refused(f"the staged {kind} are {manifest.content_digest}; the training expects {training.dataset}")
    return (folder / LINES).read_bytes()


def renderer_of(staged: Staged, training: Training) -> Renderer:
    """Return the chat template of a training with its tokenizer. Raises RankFailure where they do not fit the model."""
    # Ranks import this module before they are forked, and the tokenizer's libraries start threads.
    from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError

    if staged.tokenizer is None:
        raise refused("no tokenizer is staged; expected that of the training")
    try:
        tokenizer = BytePairTokenizer.load(Path(staged.tokenizer).read_bytes(), expected_version=training.tokenizer)
        renderer = renderer_by(training.template, tokenizer)
    except (TokenizerError, CorpusError) as error:
        raise refused(str(error)) from error
    if tokenizer.vocabulary > training.model.vocabulary:
        raise refused(
            f"the tokenizer has {tokenizer.vocabulary} tokens; the model has room for {training.model.vocabulary}"
        )
    return renderer


def stacked(rows: Sequence[Rendered], training: Training) -> RowBatch:
    """Return rows as a leaf's: each conversation from position 0, then padding, which counts nothing.

    The prediction made at a position counts where the next token is an assistant's.
    """
    length = training.length
    tokens = np.zeros((training.step.rows, length + 1), np.int32)
    valid = np.zeros((training.step.rows, length), np.bool_)
    for row, each in enumerate(rows):
        tokens[row, : len(each)] = each.ids
        valid[row, : len(each) - 1] = each.answer[1:]
    return RowBatch(tokens, valid)


def named_parts(parts: Iterable[str]) -> str:
    """The parts of a split that there are, in words."""
    counts: Mapping[str, None] = dict.fromkeys(sorted(part for part in parts if part))
    return ", ".join(counts) or "none: it is not split"


def _drawn(key: str) -> float:
    """A number in [0, 1) that follows from a key."""
    return int.from_bytes(keyed_bytes("held out", key.encode())[:8], "little") / 2.0**64
