"""Main content of a page: the lines of what is left of it once boilerplate is left out.

What is boilerplate by its name, its links or its place is left out before a page is parsed (`markup.py`); resiliparse
writes the lines of what is left. Short lines at the end that are no sentences and no items of a list (links to other
pages, names of sections) are dropped. `python -m benchmarks.extraction` measures precision and recall.
"""

from __future__ import annotations

import re

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

_SHORT_LINE = 60
_ITEM = re.compile(r" +\S|\t|.*\S\t")
"""The beginning of a line of a list, of code, or of a table."""
_SENTENCE_ENDS = tuple(".!?)]\"'\u201d\u2019\u00bb\u2026\u3002\uff01\uff1f")


def main_text(html: str) -> str:
    """Return the main content of a page that was rewritten for it, empty where there is none."""
    return _trimmed(visible_text(html, lines=True))


def visible_text(html: str, *, lines: bool) -> str:
    """Return all text that a page shows; without `lines` on one line."""
    tree = HTMLTree.parse(html)
    return str(extract_plain_text(tree, preserve_formatting=lines, main_content=False, alt_texts=False))


def _trimmed(text: str) -> str:
    """The text without the short lines behind its last sentence; all of it where it has no sentence."""
    end = len(text)
    while end:
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].rstrip()
        if len(line) >= _SHORT_LINE or line.endswith(_SENTENCE_ENDS) or _ITEM.match(line):
            return text[:end]
        end = max(0, begin - 1)
    return text
