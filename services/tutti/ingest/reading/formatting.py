"""Formatting: how often a parser would rebuild the formatting elements of a page that are left open.

`<b>`, `<font>` and twelve more stay open when a paragraph ends around them, and are made again in each paragraph
behind it (HTML standard, 13.2.4.3): 40 kB of tags become millions of elements. What is counted is never less than what
is rebuilt, whatever the page: an end tag counts where it is sure to close what it names, and of identical elements
three.  The kernel (tags.c) counts the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

FORMATTING = frozenset(
    (b"a", b"b", b"big", b"code", b"em", b"font", b"i", b"nobr", b"s", b"small", b"strike", b"strong", b"tt", b"u")
)
CELLS = frozenset((b"td", b"th", b"caption"))
FOREIGN = frozenset((b"svg", b"math"))
DOUBTFUL = FOREIGN | {b"select"}
"""In them scripts and the like may hold tags, and others be ignored."""
SCOPES = CELLS | DOUBTFUL | {b"table", b"object", b"applet", b"marquee", b"template"}
"""No end tag inside of one of them closes what was opened before it."""
_ENTRIES, _SCOPES, _IDENTICAL = 512, 256, 3


class _Key(NamedTuple):
    name: bytes
    rest: bytes


class _Entry(NamedTuple):
    key: _Key
    scope: int
    weight: int


@dataclass(slots=True)
class Formatting:
    """What is open at a place of a page. More than `few` is counted in `rebuilt`, until that is more than `most`.

    An element weighs one, and one more for each attribute. `lost`: scopes are too deep to be told apart, or tags can
    not be told; from `lost_at` on, where a tag may begin, nothing is sure.
    """

    few: int
    most: int
    rebuilt: int = 0
    lost: bool = False
    lost_at: int | None = None
    doubtful: int = 0
    _weight: int = 0
    _ids: int = 0
    _entries: list[_Entry] = field(default_factory=list)
    _scopes: list[tuple[bytes, int]] = field(default_factory=list)

    def tag(
        self, name: bytes, rest: bytes, attributes: int, *, ends: bool = False, empty: bool = False, heard: bool = True
    ) -> None:
        """A tag, `rest` what stands behind its name; `heard`: whether it is sure to be one, so that its end counts."""
        if self.rebuilt > self.most:
            return
        self.rebuilt += max(0, self._weight - self.few)
        if name in FORMATTING:
            if heard and (ends or name in (b"a", b"nobr")):
                self._close(name)
            if not ends:
                self._open(_Entry(_Key(name, rest), self._scope, 1 + attributes))
        elif name in SCOPES:
            if not ends and not (empty and heard and name in FOREIGN):
                self._begin(name)
            elif ends and heard:
                self._end(name)

    @property
    def _scope(self) -> int:
        return self._scopes[-1][1] if self._scopes else 0

    def _open(self, new: _Entry) -> None:
        same = [each.scope for each in self._entries if each.key == new.key]
        if len(same) < _IDENTICAL:
            self._weight += new.weight
        if Counter(same)[new.scope] >= _IDENTICAL:
            self._entries.remove(new)
        if len(self._entries) < _ENTRIES:
            self._entries.append(new)

    def _close(self, name: bytes) -> None:
        at = next((at for at in reversed(range(len(self._entries))) if self._entries[at].key.name == name), -1)
        if at < 0 or self._entries[at].scope != self._scope:
            return
        if sum(each.key == self._entries[at].key for each in self._entries) <= _IDENTICAL:
            self._weight -= self._entries[at].weight
        del self._entries[at]

    def _begin(self, name: bytes) -> None:
        """The cells of a table are one scope: what one leaves open is closed at its end."""
        above, number = self._scopes[-1] if self._scopes else (b"", 0)
        in_table = name in CELLS and not self.doubtful
        if in_table and above in CELLS and number % 2:
            self._scopes[-1] = (name, number)
        elif len(self._scopes) == _SCOPES:
            self.lost = True
        else:
            shared = in_table and above == b"table"
            self._ids += 0 if shared else 2
            self._scopes.append((name, number + 1 if shared else self._ids))
            self.doubtful += name in DOUBTFUL

    def _end(self, name: bytes) -> None:
        names = [each for each, _ in self._scopes[-2:]]
        if names[-1:] == [name]:
            del self._scopes[-1]
            self.doubtful -= name in DOUBTFUL
        elif name == b"table" and names[:1] == [name] and names[1:] and names[1] in CELLS:
            del self._scopes[-2:]
