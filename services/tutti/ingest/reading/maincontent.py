"""Main content of a page: the lines of what is left of it once boilerplate is left out.

What is boilerplate by its name, its links or its place is left out before a page is parsed (`markup.py`); resiliparse
writes the lines of what is left. One or two short lines at the end (a link to another page, the name of a section) are
dropped; sentences, code, formulas, definitions and items of lists stay, and so do more short lines, such as the steps
of a recipe. `python -m benchmarks.extraction` measures precision and recall.
"""

from __future__ import annotations

import re

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

_SHORT_LINE, MOST_DROPPED = 40, 2
"""Bytes of a line that is short, of which a character of Chinese has three; lines that are dropped at most."""
_KEPT = re.compile(r" +\S|\t|.*(?:\S\t|[=\\^{}\x03])")
"""A line of a list, of code, of a table, of a formula or of definitions."""
_MARK, _MARKED = "\x03", ("</pre>", "</dt>", "</dd>")
"""A mark in the lines that these tags end; no text has it (`normalisation.py`)."""
_SENTENCE_ENDS = tuple(".!?)]\"'\u201d\u2019\u00bb\u2026\u3002\uff01\uff1f")


def main_text(html: str) -> str:
    """Return the main content of a page that was rewritten for it, empty where there is none."""
    for tag in _MARKED:
        html = html.replace(tag, _MARK + tag)
    return _trimmed(visible_text(html, lines=True)).replace(_MARK, "")


def visible_text(html: str, *, lines: bool) -> str:
    """Return all text that a page shows; without `lines` on one line."""
    tree = HTMLTree.parse(html)
    return str(extract_plain_text(tree, preserve_formatting=lines, main_content=False, alt_texts=False))


def _trimmed(text: str) -> str:
    """The text without one or two short lines behind its last sentence; all of it where there are more."""
    end, dropped = len(text), 0
    while end and dropped <= MOST_DROPPED:
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].rstrip()
        if len(line.encode()) >= _SHORT_LINE or line.endswith(_SENTENCE_ENDS) or _KEPT.match(line):
            return text[:end]
        end, dropped = max(0, begin - 1), dropped + bool(line)
    return text
