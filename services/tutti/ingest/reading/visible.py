"""Visible text: all that a page shows, in time that grows with the page.

The extraction of main content copies what it has at each block: its time is the product of blocks and text (2 MB of
`<li>x`: half a minute).  `effort` says beforehand what that would be; where it is too much the text is taken here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from resiliparse.parse.html import DOMNode, HTMLTree

MOST = 2 * 10**10
"""Of blocks times characters: up to four seconds for main content."""
_FEW_TAGS = 4_000
"""However deep lists are in each other."""
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6", "p"))
_BLOCKS = _HEADINGS | frozenset((
    "address", "applet", "article", "aside", "blockquote", "body", "canvas", "caption", "center", "dd", "details",
    "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frameset", "header",
    "hgroup", "hr", "html", "legend", "li", "listing", "main", "marquee", "menu", "nav", "object", "ol", "optgroup",
    "option", "plaintext", "pre", "search", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
    "video", "xmp",
))  # fmt: skip
_HIDDEN = frozenset((
    "audio", "button", "canvas", "datalist", "head", "iframe", "math", "noembed", "noframes", "noscript", "object",
    "script", "select", "style", "svg", "template", "textarea", "title", "video",
))  # fmt: skip
_COUNTED = ", ".join(sorted({*_BLOCKS, "br"}))
_LISTS = frozenset(("ul", "ol"))
_STEPS = 100_000
_DEEPEST = 1_024
_INDENTED = 8
_ELEMENT, _TEXT = 1, 3
_SPACE = re.compile(r"[ \t\n\f\r]+")


def effort(tree: HTMLTree, *, tags: int, characters: int, depth: int) -> int:
    """What the main content of a page would take, in blocks times characters; 0 where it is little for sure.

    `tags` and `characters` are those of the page, `depth` a bound of how deep its elements lie.
    """
    if tags < _FEW_TAGS and tags * characters < MOST / 2:
        return 0
    if tags * (characters + tags * _indent(depth)) < MOST:
        return 0
    root = tree.body or tree.document
    lists = root.query_selector_all("ul, ol")
    depth = min(depth, len(lists))
    elements, letters = len(root.get_elements_by_tag_name("*")), len(root.text)
    if elements * (letters + elements * _indent(depth)) < MOST:
        return 0
    blocks = len(root.query_selector_all(_COUNTED))
    hidden = sum(len(each.text) for each in root.query_selector_all("script, style"))
    return blocks * (letters - hidden + blocks * _indent(_deepest(lists) if depth > _INDENTED else depth))


def _indent(lists: int) -> int:
    """So many spaces are before a line in lists in each other."""
    return 2 * (1 + lists)


def visible_text(tree: HTMLTree) -> str:
    """What a page shows: a block begins a line, a paragraph one behind an empty line."""
    lines = _Lines()
    for node, begins in _walk(tree):
        if node.type == _TEXT:
            lines.say(node.value or "")
        elif node.type == _ELEMENT:
            lines.element(node.tag, begins=begins)
    return "".join(lines.pieces)


def _walk(tree: HTMLTree) -> Iterator[tuple[DOMNode, bool]]:
    """Each node that is shown, and whether it begins; those with nodes in them once more where they end."""
    node = tree.body or tree.document
    top = 0
    while node is not None:
        hidden = node.type == _ELEMENT and node.tag in _HIDDEN
        if not hidden:
            yield node, True
            if node.first_child is not None:
                node, top = node.first_child, top + 1
                continue
        if not hidden and node.type == _ELEMENT:
            yield node, False
        while top and node.next is None:
            node, top = node.parent, top - 1
            yield node, False
        node = node.next if top else None


@dataclass(slots=True)
class _Lines:
    """`breaks`: how many line feeds come before the next word; `mark`: what stands before it on its line."""

    pieces: list[str] = field(default_factory=list)
    breaks: int = 0
    space: bool = False
    mark: str = ""
    kept: int = 0
    lists: int = 0

    def say(self, text: str) -> None:
        said = text if self.kept else _SPACE.sub(" ", text)
        bare = said.strip("\n") if self.kept else said.strip(" ")
        if not bare.strip():
            self.space = self.space or bool(said)
            return
        if self.pieces and self.breaks:
            self.pieces.append("\n" * self.breaks)
        elif self.pieces and (self.space or said[0] == " "):
            self.pieces.append(" ")
        self.pieces.append(self.mark + bare)
        self.breaks, self.mark, self.space = 0, "", not self.kept and said[-1] == " "

    def element(self, tag: str, *, begins: bool) -> None:
        """Where an element begins or ends."""
        if tag == "br" and begins:
            self.breaks = min(2, self.breaks + 1)
        elif tag in ("td", "th"):
            self.space = True
        elif tag in _BLOCKS:
            self.breaks = max(self.breaks, 2 if tag in _HEADINGS and not self.mark else 1)
        if tag == "pre":
            self.kept += 1 if begins else -1
        elif tag in _LISTS:
            self.lists += 1 if begins else -1
        elif tag == "li":
            self.mark = "  " * min(max(self.lists, 1), _INDENTED) + "\u2022 " if begins else ""


def _deepest(lists: Iterable[DOMNode]) -> int:
    """How many lists lie in each other at most, or more."""
    steps = deepest = 0
    for each in lists:
        node: DOMNode | None = each
        depth = 0
        while node is not None:
            depth += node.type == _ELEMENT and node.tag in _LISTS
            node, steps = node.parent, steps + 1
        deepest = max(deepest, depth)
        if steps > _STEPS:
            return _DEEPEST
    return deepest
