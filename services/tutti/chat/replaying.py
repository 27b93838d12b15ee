"""Answers that have ended, again as their pieces, from the journal alone. Pure.

Promises: the pieces are those that were shown, with every bit of the log-probabilities.
"""

from dataclasses import dataclass

from tutti.chat.answering import joined, refused
from tutti.chat.generations import Generation
from tutti.chat.saying import Piece, Record, Saying, Served
from tutti.inference.engine import Chosen


@dataclass(frozen=True)
class Replay:
    """The pieces of an answer, and its state at its end."""

    pieces: list[Piece]
    record: Record


def replayed(served: Served, generation: Generation, finished: str) -> Replay:
    """The pieces of an answer that ended as `finished` says. Raises InvalidField."""
    request = generation.request
    record = Record(joined(served, request, id="replay", seed=0, salt=""))
    if piece := refused(served, request, record):
        return Replay([piece], record)
    saying, pieces = Saying(served, request, record), list[Piece]()
    scores = generation.scores or [(0.0, ())] * len(generation.ids)
    for at, (token, (logprob, alternatives)) in enumerate(zip(generation.ids, scores, strict=True)):
        pieces += saying.push(Chosen("replay", at, token, logprob, alternatives))
    if not saying.ended:
        pieces.append(saying.end(finished))
    return Replay(pieces, record)
