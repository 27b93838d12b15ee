"""The Python twin of markup.c: the reference for the kernel, and the implementation on machines without it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from tutti.ingest.reading.markupkinds import (
    ARTICLE,
    BOXES,
    KINDS,
    LITTLE_PROSE,
    LONG_PARAGRAPH,
    LONGEST,
    MAX_DEPTH,
    NO_KIND,
    POOR,
    READ,
    Kind,
    Markup,
    Mode,
    title_of,
)

_TOKEN = re.compile(
    rb"<!--(?:-?>|.*?(?:--!?>|\Z))|<(?P<end>/?)(?P<name>[a-zA-Z][^\t\n\f\r />]*+)|<(?:[!?]|/(?=.))[^>]*+>?"
    rb"|(?P<text><|[^<]++)",
    re.DOTALL,
)
_BETWEEN = re.compile(rb"[\t\n\f\r /]*+")
_ATTRIBUTE = re.compile(
    rb"([^\t\n\f\r />][^\t\n\f\r />=]*+)"
    rb"(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:\"([^\"]*+)(?:\"|\Z)|'([^']*+)(?:'|\Z)|([^\t\n\f\r >]*+)))?+"
)
_BOX, _POOR = (re.compile(b"|".join(each.encode() for each in parts), re.IGNORECASE) for parts in (BOXES, POOR))
_BLOCKS = Kind.SPECIAL | Kind.THIN


@dataclass(slots=True)
class _Sums:
    """Bytes of text, of those in links, and of those that are prose; and how many headings of the first level."""

    text: int = 0
    link: int = 0
    prose: int = 0
    titles: int = 0

    def add(self, other: _Sums) -> None:
        self.text += other.text
        self.link += other.link
        self.prose += other.prose
        self.titles += other.titles


@dataclass(slots=True, eq=False)
class _Open:
    """`shown`: the name that its tags have in what is written; `at`: where they begin. `pending`: it is left out unless
    an element of this kind is in it.
    """

    name: bytes
    kind: Kind
    at: int = 0
    shown: bytes = b""
    named: bool = False
    link: bool = False
    spans: int = 0
    sums: _Sums = field(default_factory=lambda: _Sums())
    pending: Kind = NO_KIND


@dataclass(slots=True)
class _Tag:
    name: bytes
    kind: Kind
    ends: bool
    empty: bool = False
    has: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    """The value, and how it is quoted, of attributes that are read."""


def written(page: bytes, mode: Mode) -> Markup:
    """Return the page as it is to be parsed."""
    rewriting = _Rewriting(mode)
    at, title = 0, None
    while token := _TOKEN.match(page, at):
        at = token.end()
        if token["text"]:
            rewriting.text(b"&lt;" if token["text"] == b"<" else token["text"])
        if not token["name"]:
            continue
        tag, at = _read(page, token, mode)
        if tag is None:
            break
        rewriting.tag(tag)
        if rewriting.too_deep:
            break
        if Kind.RAW in tag.kind and not tag.ends and not (tag.empty and rewriting.is_foreign):
            end = _raw_end(page, at, tag.name)
            if Kind.TITLE in tag.kind and not rewriting.is_foreign:
                title = page[at:end] if title is None else title
            at = end
    return rewriting.done(title_of(title or b""))


def _read(page: bytes, token: re.Match[bytes], mode: Mode) -> tuple[_Tag | None, int]:
    """The tag whose name was matched, and where it ends; none where it has no end."""
    name = token["name"].lower()
    tag = _Tag(name, KINDS.get(name.decode("latin-1"), NO_KIND), ends=bool(token["end"]))
    at = token.end()
    while (between := _BETWEEN.match(page, at)) and (at := between.end()) < len(page) and page[at] != ord(">"):
        if found := _ATTRIBUTE.match(page, at):
            at = found.end()
            label = found[1].lower().decode("latin-1")
            which = found.lastindex or 1
            quote = b"\0\0\"'\0"[which : which + 1].strip(b"\0")
            if label in READ[mode]:
                tag.has.setdefault(label, (_cut(found[which] if which > 1 else b"", LONGEST[mode]), quote))
    if at >= len(page):
        return None, at
    tag.empty = bool(between and between[0].endswith(b"/"))
    return tag, at + 1


def _cut(value: bytes, longest: int) -> bytes:
    """At most so many bytes of a value, and no part of a character."""
    if len(value) <= longest:
        return value
    while longest and value[longest] & 0xC0 == 0x80:
        longest -= 1
    return value[:longest]


def _raw_end(page: bytes, at: int, name: bytes) -> int:
    """The start of the end tag of an element that contains no tags."""
    comment = inner = False
    marks = re.compile(rb"<!(?=--)|--(?=>)|<(?P<end>/?)" + name + rb"(?=[\t\n\f\r />])", re.IGNORECASE)
    for mark in marks.finditer(page, at):
        if mark[0] == b"<!":
            comment = comment or name == b"script"
        elif mark[0] == b"--":
            comment = inner = False
        elif not mark["end"]:
            inner = comment
        elif not inner:
            return mark.start()
        else:
            inner = False
    return len(page)


class _Rewriting:
    """The written text, and the elements that are open there."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._out = bytearray()
        self._open: list[_Open] = []
        self._opened: Counter[bytes] = Counter()
        self._sums, self._spans, self._marks = _Sums(), list[tuple[int, int]](), list[tuple[int, int]]()
        self._dropping: _Open | None = None
        self._tags = self._depth = self._deepest = self._work = self._bytes = self._templates = 0
        self.too_deep = False

    @property
    def is_foreign(self) -> bool:
        """True if this is in a picture."""
        return self._dropping is not None and Kind.FOREIGN in self._dropping.kind

    def text(self, text: bytes) -> None:
        if self._mode is not Mode.LINKS and self._dropping is None:
            self._bytes += len(text) * self._depth
            self._out += text
            sums, length = self._around(), len(text.strip(b"\t\n\f\r "))
            sums.text += length
            sums.link += length if any(each.link for each in self._open) else 0

    def tag(self, tag: _Tag) -> None:
        if self._mode is Mode.LINKS:
            self._link(tag)
        elif tag.ends:
            self._closes(tag)
        elif Kind.RAW not in tag.kind:
            self._opens(tag)

    def done(self, title: str) -> Markup:
        while self._open:
            self._pop()
        if self._mode is Mode.MAIN:
            self._leave_out()
        cost = self._work + self._bytes // 16
        return Markup(bytes(self._out), title, self._tags, self._deepest, cost, self.too_deep)

    def _link(self, tag: _Tag) -> None:
        if Kind.TEMPLATE in tag.kind:
            self._templates = max(0, self._templates + (-1 if tag.ends else 1))
        if tag.ends or self._templates or Kind.LINK not in tag.kind:
            return
        framed = tag.name in (b"frame", b"iframe")
        name = b"iframe" if framed else tag.name
        self._out += b"<" + name + _attributes(tag, READ[self._mode]) + b">"
        if framed or Kind.A in tag.kind:
            self._out += b"</" + name + b">"

    def _opens(self, tag: _Tag) -> None:
        kind = tag.kind
        if Kind.IGNORED in kind:
            return
        if kind & (Kind.CELL | Kind.ROW | Kind.GROUP):
            if not any(Kind.TABLE in each.kind for each in self._open):
                return
            within = {Kind.CELL: Kind.ROW | Kind.GROUP | Kind.TABLE, Kind.ROW: Kind.GROUP | Kind.TABLE}
            context = next((within[each] for each in within if each in kind), Kind.TABLE)
            while not self._open[-1].kind & context:
                self._pop()
        if Kind.ENDS_P in kind:
            self._ends(b"p", NO_KIND, Kind.SCOPE | Kind.BUTTON)
        if Kind.HEADING in kind:
            self._ends(b"", Kind.HEADING, _BLOCKS)
        if kind & (Kind.ITEM | Kind.TERM):
            self._ends(b"", kind & (Kind.ITEM | Kind.TERM), Kind.SPECIAL)
        if Kind.A in kind:
            self._ends_format(tag.name)
        for each in self._open:
            if each.pending in kind:
                each.pending = NO_KIND
        if Kind.VOID in kind:
            self._shows(b"<hr>" if Kind.ENDS_P in kind else b"<br>")
        elif not (tag.empty and (Kind.FOREIGN in kind or self.is_foreign)):
            self._push(tag)

    def _push(self, tag: _Tag) -> None:
        kind, main = tag.kind, self._mode is Mode.MAIN
        hard = Kind.HARD in kind or (main and Kind.BESIDE in kind)
        new = _Open(tag.name, kind, len(self._out), spans=len(self._spans))
        if self._dropping is None and not hard:
            known = tag.name.decode("latin-1") in KINDS
            if Kind.INLINE not in kind:
                new.shown = tag.name if known else b"span"
            classes = tag.has.get("class", (b"",))[0]
            new.link = main and Kind.A in kind and "href" in tag.has
            new.named = main and bool(_POOR.search(classes))
            if Kind.LABEL in kind:
                new.pending = Kind.WRAPPED
            elif main and _BOX.search(classes):
                new.pending = Kind.H1
        solid = sum(map(_is_solid, self._open))
        if (solid if _is_solid(new) else len(self._open) - solid) == MAX_DEPTH:
            self.too_deep |= _is_solid(new)
            return
        self._opened[new.name] += 1
        self._open.append(new)
        if hard and self._dropping is None:
            self._dropping = new
        if new.shown:
            self._shows(b"<" + new.shown + b">")
            self._depth += 1
            self._deepest = max(self._deepest, self._depth)

    def _closes(self, tag: _Tag) -> None:
        kind = tag.kind
        if kind & (Kind.IGNORED | Kind.RAW):
            return
        if Kind.VOID in kind:
            if Kind.ENDS_P not in kind:
                self._shows(b"<br>")
            return
        stops = _BLOCKS
        if kind & (Kind.CELL | Kind.ROW | Kind.GROUP | Kind.TABLE):
            stops = Kind.TABLE
        elif Kind.ITEM in kind:
            stops = Kind.SCOPE | Kind.LIST
        elif Kind.P in kind:
            stops = Kind.SCOPE | Kind.BUTTON
        elif kind & (_BLOCKS | Kind.THROUGH):
            stops = Kind.SCOPE
        elif Kind.FORMAT in kind:
            self._ends_format(tag.name)
            return
        if not self._ends(tag.name, kind & Kind.HEADING, stops) and Kind.P in kind:
            self._shows(b"<p></p>")

    def _shows(self, tag: bytes) -> None:
        if self._dropping is None:
            self._tags += 1
            self._work += self._depth + 1
            self._out += tag

    def _pop(self) -> None:
        last = self._open.pop()
        self._opened[last.name] -= 1
        if last.shown:
            self._out += b"</" + last.shown + b">"
            self._depth -= 1
        if last.pending:
            self._take_back(last)
        elif self._mode is Mode.MAIN and self._dropping is None:
            self._settle(last)
        if last is self._dropping:
            self._dropping = None

    def _ends(self, name: bytes, like: Kind, stops: Kind) -> bool:
        """End the element of a name, or of a kind, that was opened last, unless one that stops is in it."""
        if not like and not self._opened[name]:
            return False
        for each in reversed(self._open):
            if (name and each.name == name) or each.kind & like:
                self._pop_to(each)
                return True
            if each.kind & stops:
                return False
        return False

    def _ends_format(self, name: bytes) -> None:
        """End what formats text. Where blocks have begun in it they stay open."""
        inner = list[_Open]()
        for each in reversed(self._open if self._opened[name] else []):
            if each.name == name:
                break
            if Kind.SCOPE in each.kind:
                return
            inner.append(each)
        else:
            return
        if not any(each.kind & _BLOCKS for each in inner):
            self._pop_to(each)
            return
        self._opened[name] -= 1
        each.name = b""
        self._opened[b""] += 1
        each.link = False

    def _around(self) -> _Sums:
        return self._open[-1].sums if self._open else self._sums

    def _take_back(self, last: _Open) -> None:
        del self._out[last.at :], self._spans[last.spans :]
        while self._marks and self._marks[-1][1] > last.at:
            self._marks.pop()

    def _settle(self, last: _Open) -> None:
        """Add what an element holds to that around it, or take it back where it is no main content."""
        sums = last.sums
        if Kind.P in last.kind and sums.text > LONG_PARAGRAPH:
            sums.prose += sums.text - sums.link
        sums.titles += Kind.H1 in last.kind
        links = Kind.HEADING in last.kind and 2 * sums.link > sums.text
        if sums.prose < LITTLE_PROSE and not sums.titles and (last.named or links):
            self._take_back(last)
            return
        self._around().add(sums)
        if not last.shown or (not sums.prose and (sums.titles or Kind.H2 in last.kind)):
            return
        if not sums.prose:
            self._spans[last.spans :] = [(last.at, len(self._out))]
        elif Kind.P not in last.kind and (not self._marks or sums.prose > self._marks[-1][0]):
            self._marks.append((sums.prose, len(self._out)))

    def _leave_out(self) -> None:
        """Leave out what has no prose behind the element that has nearly all of it."""
        if self._sums.prose < ARTICLE:
            return
        behind = next((end for prose, end in self._marks if 10 * prose >= 9 * self._sums.prose), None)
        if behind is not None:
            for begin, end in reversed([each for each in self._spans if each[0] >= behind]):
                del self._out[begin:end]

    def _pop_to(self, last: _Open) -> None:
        while last in self._open:
            self._pop()


def _is_solid(each: _Open) -> bool:
    return Kind.INLINE not in each.kind


def _attributes(tag: _Tag, names: tuple[str, ...]) -> bytes:
    return b"".join(_attribute(name, *tag.has[name]) for name in names if name in tag.has)


def _attribute(name: str, value: bytes, quote: bytes) -> bytes:
    return b" " + name.encode() + (b"=" + quote + value + quote if value else b"")
