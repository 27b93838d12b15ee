"""The pieces of one answer for several readers in one event loop, each from the first piece on.

Promises: the answer continues without readers; a reader gets all pieces in their order, and the error that ended them.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable

from tutti.chat.saying import Piece


class Shared:
    """Pieces that are read from `source` as they come, from now on."""

    def __init__(self, source: AsyncIterable[Piece]) -> None:
        self._pieces, self._changed = list[Piece](), asyncio.Event()
        self._error: Exception | None = None
        self.collecting = asyncio.ensure_future(self._collect(source))

    async def read(self) -> AsyncGenerator[Piece, None]:
        """Yield the pieces. Raises the error that ended the answer."""
        at = 0
        while True:
            changed = self._changed
            while at < len(self._pieces):
                yield self._pieces[at]
                at += 1
            if self.collecting.done():
                if self._error is not None:
                    raise self._error
                return
            await asyncio.wait(
                {waiting := asyncio.ensure_future(changed.wait()), self.collecting}, return_when=asyncio.FIRST_COMPLETED
            )
            waiting.cancel()

    async def _collect(self, source: AsyncIterable[Piece]) -> None:
        try:
            async for piece in source:
                self._pieces.append(piece)
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()
        except Exception as error:
            self._error = error
