"""Demonstrations: conversations whose assistant's turns are learned, one in a row."""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.corpus.conversations.conversations import Conversation, from_lines
from tutti.corpus.conversations.rendered import Rendered
from tutti.model.training import Training
from tutti.records.manifest import Kind
from tutti.trainer.batches.samples import (
    REFUSED,
    Reading,
    RowBatch,
    SampleData,
    lines_of,
    named_parts,
    refused,
    renderer_of,
    stacked,
)
from tutti.trainer.batches.staged import Staged


@dataclass(frozen=True)
class Demonstration:
    """A conversation as it is trained on; `key` is the digest of its messages."""

    key: str
    rendered: Rendered


class Demonstrations(SampleData[Demonstration, RowBatch]):
    """The conversations of a part that have an assistant's turn and fit into a row."""

    def __init__(self, staged: Staged, training: Training, *, held_out: float) -> None:
        """Raises RankFailure when nothing is left to train on, CorpusError when the lines are damaged."""
        super().__init__(training, _read(staged, training), held_out=held_out, rows=1)

    def batch(self, samples: Sequence[Demonstration]) -> RowBatch:
        return stacked([each.rendered for each in samples], self.training)


def _read(staged: Staged, training: Training) -> Reading[Demonstration]:
    renderer, room = renderer_of(staged, training), training.length + 1
    reading, parts = Reading[Demonstration]("conversations"), set[str]()
    wanted: list[tuple[int, Conversation]] = []
    for line, each in enumerate(from_lines(Conversation, lines_of(staged, training, Kind.CONVERSATIONS)), 1):
        parts.add(each.part)
        if training.part not in ("", each.part):
            continue
        reading.lines += 1
        if renderer.refuses(each.messages):
            reading.leave_out(REFUSED, line)
        else:
            wanted.append((line, each))
    found = renderer.render_all(each.messages for _, each in wanted)
    for (line, each), rendered in zip(wanted, found, strict=True):
        if not rendered.answer.any():
            reading.leave_out("without an assistant's turn", line)
        elif len(rendered) > room:
            reading.leave_out(f"longer than {room} tokens", line)
        else:
            reading.samples.append(Demonstration(each.digest, rendered))
    if not reading.lines:
        part = f" in the part {training.part!r}; its parts are {named_parts(parts)}" if training.part else ""
        raise refused(f"there are no conversations{part}")
    return reading
