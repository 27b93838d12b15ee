"""Open elements and blocks of a page, with what they hold so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.ingest.reading.markupkinds import (
    Kind,
    Sort,
)
from tutti.ingest.reading.markupsorts import NO_SORT


@dataclass(slots=True)
class Sums:
    """Bytes of text, of those in links, and of those that are prose; headings of the first level, and headings that
    are links.
    """

    text: int = 0
    link: int = 0
    prose: int = 0
    titles: int = 0
    heads: int = 0

    def add(self, other: Sums) -> None:
        self.text += other.text
        self.link += other.link
        self.prose += other.prose
        self.titles += other.titles
        self.heads += other.heads


@dataclass(slots=True, eq=False)
class Open:
    """`shown`: the name that its tags have in what is written; `at`: where they begin; `inner`: how many blocks had
    ended before. `pending`: it is left out unless a block is in it. `formula`: where the formula begins that ends
    before or with it; `tex`: where its source in LaTeX is written.
    """

    name: bytes
    kind: Kind
    at: int = 0
    shown: bytes = b""
    sort: Sort = NO_SORT
    link: bool = False
    inner: int = 0
    sums: Sums = field(default_factory=lambda: Sums())
    pending: bool = False
    alt: bytes = b""
    formula: int = 0
    tex: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Block:
    """The written part of an element that has ended. `out`: the prose left out up to its end."""

    begin: int
    end: int
    prose: int
    inner: int
    sort: Sort
    out: int = 0


def is_teaser(each: Block, article: Block) -> bool:
    is_inside = each.begin >= article.begin and each.end <= article.end
    return is_inside and Sort.TEASER in each.sort and Sort.OUT not in each.sort


def is_solid(each: Open) -> bool:
    return Kind.INLINE not in each.kind
