"""Nesting: how deep the elements of a page lie in each other.

The parser's time grows with the square of the depth (20,000 levels take 12 s), so depth is bounded before it.
"""

from __future__ import annotations

import re
from collections import Counter

MAX_DEPTH = 512
_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|textarea|title)\b.*?(?:</\1|\Z)|<(/?)([a-z][a-z0-9]*)", re.I | re.S
)
# Elements without content, and those that the next of their kind closes: they do not nest by themselves.
_FLAT = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
    "a", "body", "colgroup", "dd", "dt", "head", "html", "li", "nobr", "optgroup", "option", "p", "rp",
    "rt", "tbody", "td", "tfoot", "th", "thead", "tr",
))  # fmt: skip


def nested_too_deep(html: str) -> bool:
    """Whether more than MAX_DEPTH elements that can nest are open at once."""
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
