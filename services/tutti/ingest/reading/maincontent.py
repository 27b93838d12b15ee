"""Main content of a page: resiliparse's, without boilerplate that it keeps.

resiliparse keeps nearly all of an article, and much of what is beside it. So elements that are boilerplate by name or
class are left out before a page is parsed (`markup.py`), an article's element is read alone where it holds most of the
text, and short lines at the end that are no sentences (links to other pages, names of sections) are dropped.
`python -m benchmarks.extraction` measures precision and recall.
"""

from __future__ import annotations

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import ElementNode, HTMLTree

_ARTICLES = ("article", "main, [role=main]", "#content, #main, .content, #main-content, .main-content")
_HINTS = ("<article", "<main", *(f"{name}={quote}" for name in ("role", "id", "class") for quote in ("'main", '"main')),
          *(f"{name}={quote}" for name in ("id", "class") for quote in ("'content", '"content')))  # fmt: skip
"""A page without any of them is not searched for an article: a search looks at all elements."""
_CANDIDATES = 16
"""Elements of a selector that are compared."""
_LEAST_CHARACTERS, _LEAST_SHARE = 250, 0.7
"""Minimum length of an article, and minimum share of the page's text, to be read alone."""
_SHORT_LINE = 60
_SENTENCE_ENDS = tuple(".!?:;)]\"'\u201d\u2019\u00bb\u2026\u3002\uff01\uff1f")


def main_text(html: str) -> str:
    """Return the main content of a page that was rewritten for it, empty where there is none."""
    tree = HTMLTree.parse(html)
    text = _extracted(tree)
    article = _article(tree) if text and any(hint in html for hint in _HINTS) else None
    if article is not None and tree.body is not None:
        tree.body.replace_children(article)
        alone = _extracted(tree)
        if len(alone) >= max(_LEAST_CHARACTERS, _LEAST_SHARE * len(text)):
            text = alone
    return _trimmed(text)


def visible_text(html: str, *, lines: bool) -> str:
    """Return all text that a page shows; without `lines` on one line."""
    tree = HTMLTree.parse(html)
    return str(extract_plain_text(tree, preserve_formatting=lines, main_content=False, alt_texts=False))


def _extracted(tree: HTMLTree) -> str:
    return str(extract_plain_text(tree, main_content=True, alt_texts=False, comments=False, post_meta=False))


def _article(tree: HTMLTree) -> ElementNode | None:
    """The element of the first selector that fits whose text is longest; None where that is short."""
    for selector in _ARTICLES:
        # A slice is read once; iteration looks for each element from the begin of the page.
        found: tuple[ElementNode, ...] = tree.body.query_selector_all(selector)[:_CANDIDATES]
        best = max(found, key=lambda each: len(each.text), default=None)
        if best is not None:
            return best if len(best.text) >= _LEAST_CHARACTERS else None
    return None


def _trimmed(text: str) -> str:
    """The text without the short lines behind its last sentence; all of it where it has no sentence."""
    end = len(text)
    while end:
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].rstrip()
        if len(line) >= _SHORT_LINE or line.endswith(_SENTENCE_ENDS):
            return text[:end]
        end = max(0, begin - 1)
    return text
