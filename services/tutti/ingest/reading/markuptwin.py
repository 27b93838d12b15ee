"""The Python twin of markup.c: the reference for the kernel, and the implementation on machines without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from tutti.ingest.reading.markupblocks import Block, Open, Sums, is_solid, is_teaser
from tutti.ingest.reading.markupkinds import (
    ARTICLE,
    KINDS,
    LITTLE_PROSE,
    LONG_RUN,
    LONGEST_WORD,
    MAX_DEPTH,
    MOST_BLOCKS,
    NO_KIND,
    QUESTION,
    READ,
    Kind,
    Markup,
    Mode,
    Sort,
    title_of,
)
from tutti.ingest.reading.markupsorts import NO_SORT, attribute_values, is_word, sort_of
from tutti.ingest.reading.markuptags import SPACES, TOKEN, Tag, raw_end, read_tag

_BLOCKS = Kind.SPECIAL | Kind.THIN


def written(page: bytes, mode: Mode) -> Markup:
    """Return the page as it is to be parsed."""
    rewriting = _Rewriting(mode)
    at, title = 0, None
    while token := TOKEN.match(page, at):
        at = token.end()
        if token["text"]:
            rewriting.text(b"&lt;" if token["text"] == b"<" else token["text"])
        if not token["name"]:
            continue
        tag, at = read_tag(page, token, mode)
        if tag is None:
            break
        rewriting.tag(tag)
        if rewriting.too_deep:
            break
        if Kind.RAW in tag.kind and not tag.ends and not (tag.empty and rewriting.is_foreign):
            end = raw_end(page, at, tag.name)
            if Kind.TITLE in tag.kind and not rewriting.is_foreign:
                title = page[at:end] if title is None else title
            if Kind.SCRIPT in tag.kind and tag.value("type")[:8].lower() == b"math/tex":
                rewriting.formula(page[at:end])
            at = end
    return rewriting.done(title_of(title or b""))


class _Rewriting:
    """The written text, and the elements that are open there."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._out = bytearray()
        self._open: list[Open] = []
        self._opened: Counter[bytes] = Counter()
        self._sums, self._run, self._blocks = Sums(), Sums(), list[Block]()
        self._formula = (0, -1)
        self._dropping: Open | None = None
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
            self._count(text)

    def formula(self, source: bytes) -> None:
        """Write a formula in LaTeX from a script, in place of how it is shown just before."""
        if self._mode is Mode.LINKS or self._dropping is not None:
            return
        begin, end = self._formula
        if end == len(self._out) and (not self._open or self._open[-1].at <= begin):
            del self._out[begin:]
            while self._blocks and self._blocks[-1].end > begin:
                self._blocks.pop()
        self._bytes += len(source) * self._depth
        self._out += source.replace(b"&", b"&amp;").replace(b"<", b"&lt;")
        self._count(source)
        self._formula = (0, -1)

    def _count(self, text: bytes) -> None:
        length, link = len(text.strip(SPACES)), any(each.link for each in self._open)
        for sums in (self._around(), self._run):
            sums.text += length
            sums.link += length if link else 0

    def tag(self, tag: Tag) -> None:
        if self._mode is Mode.LINKS:
            self._link(tag)
        elif tag.ends:
            self._closes(tag)
        elif Kind.RAW not in tag.kind:
            self._opens(tag)

    def done(self, title: str) -> Markup:
        while self._open:
            self._pop()
        self._leave_out()
        cost = self._work + self._bytes // 16
        return Markup(bytes(self._out), title, self._tags, self._deepest, cost, self.too_deep)

    def _link(self, tag: Tag) -> None:
        if Kind.TEMPLATE in tag.kind:
            self._templates = max(0, self._templates + (-1 if tag.ends else 1))
        if tag.ends or self._templates or Kind.LINK not in tag.kind:
            return
        framed = tag.name in (b"frame", b"iframe")
        name = b"iframe" if framed else tag.name
        self._out += b"<" + name + attribute_values(tag, READ[self._mode]) + b">"
        if framed or Kind.A in tag.kind:
            self._out += b"</" + name + b">"

    def _opens(self, tag: Tag) -> None:
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
        if Kind.WRAPPED in kind:
            for each in self._open:
                each.pending = False
        if Kind.VOID in kind:
            if Kind.ENDS_P in kind and self._dropping is None:
                self._end_run()
            self._shows(b"<hr>" if Kind.ENDS_P in kind else b"<br>")
        elif not (tag.empty and (Kind.FOREIGN in kind or self.is_foreign)):
            self._push(tag)

    def _push(self, tag: Tag) -> None:
        kind = tag.kind
        hard = Kind.HARD in kind or (Kind.TEX in kind and tag.value("encoding").lower() != b"application/x-tex")
        solid = sum(map(is_solid, self._open))
        is_new_solid = Kind.INLINE not in kind
        if (solid if is_new_solid else len(self._open) - solid) == MAX_DEPTH:
            self.too_deep |= is_new_solid
            return
        new = Open(tag.name, kind, len(self._out), inner=len(self._blocks))
        if self._dropping is None and not hard:
            self._begin(new, tag)
        self._opened[new.name] += 1
        self._open.append(new)
        if hard and self._dropping is None:
            self._dropping = new
        if new.shown:
            self._shows(b"<" + new.shown + b">")
            self._depth += 1
            self._deepest = max(self._deepest, self._depth)

    def _begin(self, new: Open, tag: Tag) -> None:
        """Set the properties of an element that is not dropped."""
        kind, top = tag.kind, self._open[-1] if self._open else Open(b"", NO_KIND)
        if Kind.INLINE not in kind:
            self._end_run()
            new.shown = b"div" if Kind.BLOCK in kind else tag.name if tag.name.decode("latin-1") in KINDS else b"span"
        anchor = tag.value("href").startswith(b"#") and Kind.HEADING in top.kind
        new.link = Kind.A in kind and "href" in tag.has and not anchor
        new.pending = Kind.LABEL in kind
        new.formula = self._formula[0] if self._formula[1] == len(self._out) else len(self._out)
        new.sort = sort_of(tag, self._mode)
        if Kind.MATH in kind:
            new.alt = tag.value("alttext")
            if Kind.INLINE in top.kind:
                top.sort &= ~Sort.GONE
        if Kind.A in kind and Kind.SUP in top.kind and len(self._out) == top.at + 1:
            top.kind &= ~Kind.SUP
            self._out.pop()
        if Kind.SUP in kind:
            self._out += b"^"

    def _closes(self, tag: Tag) -> None:
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
        if self._open[-1].shown:
            self._end_run()
        last = self._open.pop()
        self._opened[last.name] -= 1
        if last.shown:
            self._out += b"</" + last.shown + b">"
            self._depth -= 1
        if last.pending:
            self._take_back(last)
        elif self._dropping is None:
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
        inner = list[Open]()
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

    def _around(self) -> Sums:
        return self._open[-1].sums if self._open else self._sums

    def _end_run(self) -> None:
        """End a run of text between two blocks."""
        if self._run.text > LONG_RUN and 2 * self._run.link < self._run.text:
            self._around().prose += self._run.text - self._run.link
        self._run = Sums()

    def _take_back(self, last: Open) -> None:
        del self._out[last.at :], self._blocks[last.inner :]
        self._formula = (0, -1)

    def _settle(self, last: Open) -> None:
        """Add what an element holds to that around it, or take it back where it is no main content."""
        kind, sums, top = last.kind, last.sums, self._open[-1] if self._open else Open(b"", NO_KIND)
        if Kind.MATH in kind:
            self._settle_formula(last)
        if Kind.TEX in kind and Kind.MATH in top.kind:
            top.tex = last.at, len(self._out)
        if Kind.SUP in kind and is_word(bytes(self._out[last.at : last.at + LONGEST_WORD + 2])):
            del self._out[last.at]
            self._formula = (0, -1)
        if Kind.MATH in kind or Sort.JAX in last.sort:
            self._formula = last.formula, len(self._out)
        sums.titles += Kind.H1 in kind
        if Kind.HEADING in kind and 2 * sums.link > sums.text:
            sums.prose = 0
            sums.heads += 1
        running = Kind.INLINE in kind and sums.text > LONG_RUN
        prose = sums.text - sums.link if running else sums.prose
        poor = prose < LITTLE_PROSE and not sums.titles
        sign = Kind.BUTTON in kind and sums.text < QUESTION and not top.kind & (Kind.HEADING | Kind.TERM)
        if poor and (Sort.POOR in last.sort or sign):
            self._take_back(last)
            return
        self._around().add(sums)
        sort = self._sort_at_end(last, poor=poor)
        if (sort or (last.shown and self._mode is Mode.MAIN)) and len(self._blocks) < MOST_BLOCKS:
            self._blocks.append(Block(last.at, len(self._out), prose, last.inner, sort))

    def _settle_formula(self, last: Open) -> None:
        """Leave of a formula its source in LaTeX, where there is one."""
        begin, end = last.tex
        if begin < end:
            self._out[last.at :] = self._out[begin:end]
        elif last.alt:
            self._out[last.at :] = last.alt.replace(b"<", b"&lt;")
        del self._blocks[last.inner :]

    def _sort_at_end(self, last: Open, *, poor: bool) -> Sort:
        if self._mode is not Mode.MAIN:
            return last.sort & Sort.GONE
        kind, sums = last.kind, last.sums
        sort = (last.sort & ~Sort.BOX) | Sort.TITLED if sums.titles else last.sort
        if not last.shown:
            return sort
        linked = 2 * sums.link > sums.text
        if not sums.prose and not sums.titles and (linked or Kind.HEADING not in kind):
            sort |= Sort.BARE
        if poor and linked and not kind & (Kind.HEADING | Kind.ITEM | Kind.TERM):
            sort |= Sort.LINKED
        if sums.prose and not kind & (Kind.HEADING | Kind.ITEM | Kind.P):
            sort |= Sort.WHOLE
        if sums.prose < ARTICLE * sums.heads and not sums.titles and Kind.HEADING not in kind:
            sort |= Sort.TEASER
        return sort

    def _leave_out(self) -> None:
        """Leave out what is no main content, by its name and by where it is."""
        prose = self._sums.prose - self._mark_out(is_thread=False)
        if prose < ARTICLE and 5 * prose < self._sums.prose:
            prose = self._sums.prose - self._mark_out(is_thread=True)
        article = self._article(prose)
        teasers = self._outermost(lambda each: is_teaser(each, article))
        teased = sum(self._blocks[at].prose for at in teasers)
        dropped = Sort.LINKED | (Sort.TEASER if 2 * teased <= prose else NO_SORT)
        for at in self._outermost(lambda each: self._is_left_out(each, article, dropped)):
            del self._out[self._blocks[at].begin : self._blocks[at].end]

    def _is_left_out(self, each: Block, article: Block, dropped: Sort) -> bool:
        if Sort.OUT in each.sort:
            return True
        if article.begin < 0:
            return Sort.ASIDE in each.sort and 2 * each.prose <= self._sums.prose
        if each.begin >= article.end:
            return not each.sort & Sort.TITLED & ~article.sort
        if each.end <= article.begin:
            return bool(each.sort & (Sort.BARE | Sort.ASIDE | Sort.POOR))
        is_inside = each.begin > article.begin or each.end < article.end
        return is_inside and bool(each.sort & dropped)

    def _outermost(self, chosen: Callable[[Block], bool]) -> Iterator[int]:
        """The places of blocks that are chosen and in no other that is, from the last on."""
        at = len(self._blocks) - 1
        while at >= 0:
            is_chosen, inner = chosen(self._blocks[at]), self._blocks[at].inner
            if is_chosen:
                yield at
            at = inner - 1 if is_chosen else at - 1

    def _mark_out(self, *, is_thread: bool) -> int:
        """Mark what is no main content by its name, but nothing with most of the prose; in a thread nothing with prose,
        unless it is hidden. Return the prose in it.
        """

        def is_out(each: Block) -> bool:
            named = Sort.GONE if is_thread and each.prose else Sort.GONE | Sort.BOX
            return bool(each.sort & named) and 2 * each.prose <= self._sums.prose

        for each in self._blocks:
            each.sort, each.out = each.sort & ~Sort.OUT, 0
        for at in self._outermost(is_out):
            self._blocks[at].out = self._blocks[at].prose
            for inner in self._blocks[self._blocks[at].inner : at + 1]:
                inner.sort |= Sort.OUT
        total = 0
        for each in self._blocks:
            each.out = total = total + each.out
        return total

    def _article(self, prose: int) -> Block:
        """The first block to end that has nearly all of the prose, or one that is nowhere where there is little."""
        for each in self._blocks if prose >= ARTICLE else []:
            out = each.out - (self._blocks[each.inner - 1].out if each.inner else 0)
            if Sort.WHOLE in each.sort and Sort.OUT not in each.sort and 5 * (each.prose - out) >= 4 * prose:
                return each
        return Block(-1, -1, 0, 0, NO_SORT)

    def _pop_to(self, last: Open) -> None:
        while last in self._open:
            self._pop()
