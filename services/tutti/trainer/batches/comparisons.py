"""Comparisons: pairs of answers, in two rows beside each other, and the probability that the first is the better."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tutti.corpus.conversations.conversations import END, Message, Preference, Role, from_lines, prompt_digest
from tutti.corpus.conversations.rendered import Rendered
from tutti.model.training import Training
from tutti.records.manifest import Kind
from tutti.trainer.batches.samples import (
    REFUSED,
    Reading,
    RowBatch,
    SampleData,
    lines_of,
    refused,
    renderer_of,
    stacked,
)
from tutti.trainer.batches.staged import Staged

ROWS = 2


@dataclass(frozen=True)
class Comparison:
    """A pair as it is trained on; `key` is the digest of its prompt, so that pairs of a prompt stay together.

    `judged` is the share of judgements that preferred the first answer, or `first` where that is not known.
    """

    key: str
    answers: tuple[Rendered, Rendered]
    first: float
    weight: float
    judged: float


@dataclass(frozen=True)
class PairBatch(RowBatch):
    """A `tutti.model.preference.PairLeaf`: rows 2i and 2i + 1 are its i-th pair. Padding has the weight 0."""

    first: npt.NDArray[np.float32]
    weight: npt.NDArray[np.float32]
    pooled: npt.NDArray[np.bool_]
    reference: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))


class Comparisons(SampleData[Comparison, PairBatch]):
    """The pairs whose two conversations fit into rows of `room` tokens."""

    def __init__(self, staged: Staged, training: Training, *, held_out: float, room: int) -> None:
        """Raises RankFailure when nothing is left to train on, CorpusError when the lines are damaged."""
        super().__init__(training, _read(staged, training, room), held_out=held_out, rows=ROWS)

    def batch(self, samples: Sequence[Comparison]) -> PairBatch:
        rows = [rendered for each in samples for rendered in each.answers]
        found = stacked(rows, self.training)
        first, weight = (np.zeros(len(found.tokens) // ROWS, np.float32) for _ in range(2))
        first[: len(samples)] = [each.first for each in samples]
        weight[: len(samples)] = [each.weight for each in samples]
        pooled = np.zeros_like(found.valid)
        for row, rendered in enumerate(rows):
            pooled[row, : len(rendered)] = rendered.answer[: pooled.shape[1]]
        return PairBatch(found.tokens, found.valid, first, weight, pooled)


def _read(staged: Staged, training: Training, room: int) -> Reading[Comparison]:
    renderer, reading = renderer_of(staged, training), Reading[Comparison]("preferences")
    asked: list[tuple[int, Preference]] = []
    for line, each in enumerate(from_lines(Preference, lines_of(staged, training, Kind.PREFERENCES)), 1):
        reading.lines += 1
        if each.prompt[-1].role is Role.ASSISTANT:
            reading.leave_out("with a prompt that the assistant has answered", line)
        elif renderer.refuses((*each.prompt, _said(""))):
            reading.leave_out(REFUSED, line)
        else:
            asked.append((line, each))
    found = renderer.render_all((*each.prompt, _said(text)) for _, each in asked for text in each.answers)
    stops = (stop for _, each in asked for stop in each.stops)
    rendered = (_only_last(each, ended=stop == END) for each, stop in zip(found, stops, strict=True))
    for (line, each), first, second in zip(asked, rendered, rendered, strict=True):
        if max(len(first), len(second)) > room:
            reading.leave_out(f"longer than {room} tokens", line)
        elif not (first.answer.any() and second.answer.any()):
            reading.leave_out("with a cut answer without text", line)
        elif each.answers[0] == each.answers[1]:
            reading.leave_out("of an answer and itself", line)
        else:
            key = prompt_digest(each.prompt)
            judged = each.first if each.judged is None else each.judged
            reading.samples.append(Comparison(key, (first, second), each.first, each.weight, judged))
    reading.require()
    if all(each.first == 0.5 for each in reading.samples):
        raise refused(
            f"all {len(reading.samples)} preferences are ties, which teach nothing; collect judgements that differ, or "
            "fit them with an axis that tells the answers apart"
        )
    return reading


def _said(text: str) -> Message:
    return Message(Role.ASSISTANT, text)


def _only_last(rendered: Rendered, *, ended: bool) -> Rendered:
    """The same with no answer but the last, which has no end of text unless it `ended`: earlier turns of the assistant
    belong to the prompt. Tokens of the template behind the answer are left out.
    """
    end = np.flatnonzero(rendered.answer)[-1]
    answer = rendered.answer[: end + 1].copy()
    answer[: np.flatnonzero(~answer)[-1]] = False
    length = end + 1 if ended else end
    return Rendered(rendered.ids[:length], answer[:length])
