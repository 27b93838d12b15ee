"""The text that readers of a completion may see, token by token.

Promises: it follows from the tokens alone, however they arrive; no part of a character is shown, and nothing that may
become part of a stop string; the text ends before the stop string whose last character comes first, or the longest of
those. Bytes that are no UTF-8 read U+FFFD.
"""

import codecs
from collections.abc import Sequence


class Visible:
    """`spelled` has the bytes of each id; a stop string is not empty. `stopped` is true once one of them has come."""

    def __init__(self, spelled: Sequence[bytes], stops: Sequence[str] = ()) -> None:
        self._spelled, self._stops, self._held, self.stopped = spelled, tuple(stops), "", False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.decoded = 0
        """The number of whole characters of the tokens so far, shown or not."""

    @property
    def is_partial(self) -> bool:
        """True if the last byte so far is not the last one of its character."""
        return bool(self._decoder.getstate()[0])

    def push(self, token: int, *, stops: bool = True) -> str:
        """Return the text that this token made visible; empty after a stop string.

        Without `stops`, the token is no part of a stop string.
        """
        text = self._decoder.decode(self._spelled[token])
        self.decoded += len(text)
        return self._released(text) if stops else text

    def finish(self) -> str:
        """Return the text that was held back, at the end of the completion."""
        shown = self._released(self._decoder.decode(b"", final=True))
        shown, self._held = shown + self._held, ""
        return shown

    def _released(self, text: str) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        if (cut := cut_at(text, self._stops)) is not None:
            self.stopped, self._held = True, ""
            return text[:cut]
        at = len(text) - _held_back(text, self._stops)
        self._held = text[at:]
        return text[:at]


def cut_at(text: str, stops: Sequence[str]) -> int | None:
    """Return the place of the stop string that ends first, of those that end together the longest; None without one."""
    found = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]
    return min(found)[1] if found else None


def _held_back(text: str, stops: Sequence[str]) -> int:
    """The length of the longest end of a text with which a stop string begins."""
    most = max((len(stop) - 1 for stop in stops), default=0)
    for length in range(min(most, len(text)), 0, -1):
        if any(stop.startswith(text[-length:]) for stop in stops):
            return length
    return 0
