"""An answer on its way from its replicas to its reader: journaled, then shown, and recorded at its end.

Promises: no piece is shown before its token is in the journal, and no end before the record; an answer that its reader
leaves, or that fails, has a record too. For the event loop of gRPC (`tutti.chassis.rpc.eventloop`).
"""

from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

from tutti.chat.answering import pieces
from tutti.chat.journal import Begun, Finished, Journal, Said
from tutti.chat.records import CANCELLED, record_of
from tutti.chat.routing import Router
from tutti.chat.saying import Piece, Record, Served

Show: TypeAlias = Callable[[Piece | Exception], None]


def words(error: Exception) -> str:
    """The message of an error, or the name of its class where it has none."""
    return str(error) or type(error).__name__


class Recording:
    """`record` is the state of the answer; `begun` is in the journal already."""

    def __init__(self, journal: Journal, served: Served, router: Router, begun: Begun, record: Record) -> None:
        self._journal, self._served, self._router = journal, served, router
        self._begun, self._record, self._ended = begun, record, False

    async def run(self, show: Show) -> None:
        """Make the answer, and show each piece, and an error that ends it. Cancel it where its reader left."""
        found: AsyncGenerator[Piece, None] = pieces(self._served, self._begun.request, self._router, self._record)
        try:
            async for piece in found:
                self._take(piece, show)
        except Exception as error:
            self._end(CANCELLED, lambda failed, error=error: show(failed or error), words(error))  # type: ignore[misc]
        finally:
            await found.aclose()
            self.close(show)

    def close(self, show: Show = lambda said: None) -> None:
        """Record an answer that has not ended as one that was cancelled."""
        if not self._ended:
            self._end(CANCELLED, lambda failed: show(failed or Piece(None, "", CANCELLED)))

    def _take(self, piece: Piece, show: Show) -> None:
        if piece.token is None:
            self._end(piece.finished, lambda failed: show(failed or piece))
            return
        at, scores = len(self._record.ids) - 1, self._record.scores
        said = Said(self._begun.answer, at, piece.token, scores[at] if scores else None)
        self._journal.add(said, lambda failed: show(failed or piece))

    def _end(self, finished: str, then: Callable[[Exception | None], None], reason: str = "") -> None:
        self._ended = True
        record = record_of(self._served, self._begun.request, self._record, finished)
        self._journal.add(Finished(self._begun, record, self._record.text, reason), then)
