"""Nesting: how deep the elements of a page lie in each other.

Parsing and extraction take time that grows with the square of the depth (20,000 levels: 0.3 s and 12 s), so depth is
bounded twice: by counting tags before a page is parsed, which misnested tags can mislead, and then in the tree.
The kernel (nesting.c) counts what Python counts.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from pathlib import Path

from resiliparse.parse.html import HTMLTree

from tutti.ingest.encoding.census import Census
from tutti.ingest.encoding.normalisation import utf8
from tutti.ingest.reading.tags import too_dear
from tutti.native.native import Kernel, kernel

MAX_DEPTH = 512
TOO_DEEP = f"elements lie more than {MAX_DEPTH} deep"
FEW_TAGS = 5_000  # parsed within 20 ms however they lie
_TOKEN = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|<(script|style)\b.*?(?:</\1|\Z)"
    r"|<(/?)([a-z][a-z0-9]*)(?>(?:[\s/]+|=?[^\s/>=]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s>\"'][^\s>]*))?)*)",
    re.IGNORECASE | re.DOTALL,
)
# Elements without content, and those that the next of their kind closes: they do not nest by themselves.
_FLAT = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
    "a", "body", "colgroup", "dd", "dt", "head", "html", "li", "nobr", "optgroup", "option", "p", "rp",
    "rt", "tbody", "td", "tfoot", "th", "thead", "tr",
))  # fmt: skip
ABOVE = 4
"""Levels that are no tag's: the document and its first two elements, and a text below all."""
_UNKNOWN = -1
_FLAT_NAMES = "".join(f"{name} " for name in sorted(_FLAT)).encode()
SHALLOW = 24  # levels of elements that most pages do not have
MOST_LEVELS = 10**7
"""Of tags times levels: main content takes half a second. An end tag may make an element, as `</p>` does."""
MANY_OPTIONS = 1_000
_WRAPPED = "label:has(div, p, ul, ol, table, h1, h2, h3, h4)"
_OPTION = re.compile(r"<(/?)(?:option|optgroup)(?=[\s/>])", re.IGNORECASE)
MAX_INDENTED = 64
"""Levels of a large page up to which its text is broken into lines."""
_SOURCE = Path(__file__).with_suffix(".c")


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def why_not_parsed(data: bytes, html: str, seen: Census) -> str:
    """Why a page would take a parser, or what reads its tree, too long; empty where it is parsed.

    `data`: the page in UTF-8, `html`: its characters, `seen`: the census of `data`.
    """
    return too_dear(data) or (TOO_DEEP if tags_too_deep(html, seen) else "")


def parsed(html: str, seen: Census) -> HTMLTree:
    """Return the tree of a page for which `why_not_parsed` is empty.

    The parser looks at all options of a list for each of them, so on pages with many they become empty elements.
    """
    return HTMLTree.parse(_OPTION.sub(r"<\1wbr", html) if seen.starts > MANY_OPTIONS else html)


def unwrap_labels(tree: HTMLTree) -> None:
    """Put blocks in place of the labels around them: extraction takes a label for part of a form."""
    for label in tree.document.query_selector_all(_WRAPPED)[:MANY_OPTIONS]:
        label.replace_with(*label.child_nodes[:])


def tags_too_deep(html: str, seen: Census, *, few: int = FEW_TAGS) -> bool:
    """Whether more than MAX_DEPTH elements that can nest are open at once; a page of few tags is left to the tree.

    `seen`: the census of the page in UTF-8.
    """
    if seen.tags <= few:
        return False
    library = native().library
    found = _UNKNOWN if library is None else _by_kernel(library, html)
    return open_too_deep(html) if found == _UNKNOWN else bool(found)


def _by_kernel(library: ctypes.CDLL, html: str) -> int:
    data = utf8(html)
    return int(library.tags_too_deep(data, ctypes.c_int64(len(data)), _FLAT_NAMES, ctypes.c_int64(MAX_DEPTH)))


def open_too_deep(html: str) -> bool:
    """Whether more than MAX_DEPTH elements that can nest are open at once, as the kernel is held to count them."""
    opened: Counter[str] = Counter()
    depth = 0
    for token in _TOKEN.finditer(html):
        name = (token.group(3) or "").lower()
        if not name or name in _FLAT:
            continue
        if not token.group(2):
            opened[name] += 1
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif opened[name]:
            opened[name] -= 1
            depth -= 1
    return False


def levels(tree: HTMLTree, seen: Census) -> int:
    """Return a bound of how deep elements are nested in a parsed page: the least of a few that holds.

    More than 2 * MAX_DEPTH where none does. `seen`: the census of the page in UTF-8.
    """
    if tree.document is None:
        return 0
    # Each nested element has a tag, except two that a parser puts between a table and a cell.
    if (most := seen.starts + 2 * seen.tables + ABOVE) < MAX_DEPTH:
        return most
    bounds = (SHALLOW, MAX_INDENTED, 2 * MAX_DEPTH)
    return next((each for each in bounds if tree.document.query_selector(deeper(each)) is None), bounds[-1] + 1)


def deeper(bound: int) -> str:
    """Return the selector of elements that have `bound` or more elements above them.

    The first of siblings stands for all: of the others nothing above is looked at.
    """
    return "html > " + "* > " * (bound - 1) + ":first-child"
