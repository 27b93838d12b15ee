"""Nesting: tags counted alike by the kernel and by the regular expression, and trees that are too deep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resiliparse.parse.html import DOMNode, HTMLTree

from tutti.ingest.encoding.census import census
from tutti.ingest.reading import nesting
from tutti.ingest.reading.nesting import FEW_TAGS, MAX_DEPTH, native, open_too_deep, tags_too_deep

KERNEL = pytest.mark.skipif(native().library is None, reason=native().why_not)
FEW = "<br>" * (FEW_TAGS + 1)  # so that tags are looked at
INSIDE = "<i>" * (MAX_DEPTH - 4)  # so that a few more elements decide

# What the grammar of a tag is about: each piece may open, close, hide or end something.
PIECES = st.sampled_from(
    [
        *(
            "<div>",
            "</div>",
            "<DIV>",
            "<b>",
            "</b>",
            "<p>",
            "<x1>",
            "</x1",
            "<",
            "</",
            ">",
            "/",
            "=",
            "'",
            '"',
            " ",
            "\n",
        ),
        *("<!--", "-->", "--!>", "->", "--", "<!-->", "<!--->", "<!x>", "<script>", "</script", "<STYLE", "</Style>"),
        *("<script_", "<scripts>", "<style\u00e9", "</scr\u0130pt>", "<\u017fcript>", "<scr\u0131pt>", "<\u212abd>"),
        *(
            "<a href='<b>'>",
            '<a b="<u>" c=<u>',
            "<b =x <u>",
            "x",
            "1",
            "\u00a0",
            "\u3000",
            "\u2003",
            "\x85",
            "\x1c",
            "\x00",
        ),
        *("\u00e9", "\ud800", "\U0001f600", "<td>", "</td>", "<B", "</B>", "b=<u", "= <u>", "=  \u00a0'<u>'", "\n"),
    ]
)


@KERNEL
@given(st.lists(PIECES, max_size=30).map("".join))
def test_the_kernel_counts_what_the_expression_counts(tags: str) -> None:
    for begins in (INSIDE, INSIDE[:-18] + "<div>" * 9 + "</div>" * 3):
        assert _tags_too_deep(begins + tags, few=0) == open_too_deep(begins + tags)


@pytest.mark.parametrize(
    ("html", "deep"),
    [
        (FEW + "<b>" * MAX_DEPTH, False),
        (FEW + "<b>" * (MAX_DEPTH + 1), True),
        (FEW + "<b></b>" * 2 * MAX_DEPTH, False),
        (FEW + "<td><p>" * 2 * MAX_DEPTH, False),
        (FEW + "<!-- " + "<b>" * 2 * MAX_DEPTH, False),
        (FEW + "<script>" + "<b>" * 2 * MAX_DEPTH + "</script>", False),
        (FEW + "".join(f"<x{each}></x{each}>" for each in range(9_000)) + "<b>" * (MAX_DEPTH + 1), True),
    ],
)
def test_elements_that_can_nest_are_counted_while_they_are_open(html: str, deep: bool) -> None:
    assert _tags_too_deep(html) is open_too_deep(html) is deep


@pytest.mark.parametrize(("levels", "deep"), [(0, False), (30, False), (2 * MAX_DEPTH, True)])
def test_a_tree_is_too_deep_by_its_deepest_node(levels: int, deep: bool) -> None:
    assert (_levels("<p>before</p>" + "<div>" * levels + "x") > 2 * MAX_DEPTH) is deep


def test_levels_are_no_fewer_than_there_are() -> None:
    for deep in (1, 22, 23, 60, 900):
        found = _levels("<div>" * deep + "x" + "<br>" * 2_000)
        assert found >= deep + 3  # in <html>, in <body>, with a text in it
        assert found in (nesting.SHALLOW, nesting.MAX_INDENTED, 2 * MAX_DEPTH)


def test_a_page_is_walked_when_it_has_more_levels_than_most() -> None:
    """The selector that spares the walk finds exactly the pages with an element so deep below the root."""
    for level in ("<div>", "<div>x", "<div><i></i>", "x<div><!-- --><b><i></i></b>"):
        for levels in range(nesting.SHALLOW - 3, nesting.SHALLOW + 2):
            tree = HTMLTree.parse(level * levels)
            deep = tree.document.query_selector("html > " + " > ".join("*" * nesting.SHALLOW))
            assert (tree.document.query_selector(nesting.deeper(nesting.SHALLOW)) is None) is (deep is None)
            assert deep is not None or levels + 1 < nesting.SHALLOW


# Elements that a parser moves, closes, rebuilds or puts others around.
NAMES = (
    *("div", "p", "a", "b", "i", "nobr", "font", "span", "h1", "h2", "ul", "li", "dl", "dd", "dt", "x-y", "DIV", "P"),
    *("table", "tbody", "tr", "td", "th", "caption", "colgroup", "col", "form", "button", "input", "object", "TABLE"),
    *("template", "marquee", "pre", "blockquote", "center", "address", "main", "details", "summary", "plaintext"),
    *("option", "ruby", "rt", "br", "body", "head", "html", "frameset", "noscript", "textarea", "title", "script"),
    *("select", "svg", "math", "desc", "mi"),
)
SOUP = st.sampled_from([*(f"<{name}>" for name in NAMES), *(f"</{name}>" for name in NAMES), "x", "<!--", "-->"])


@given(st.lists(SOUP, max_size=60).map("".join), st.integers(1, 20))
def test_of_elements_in_each_other_each_has_a_tag_of_its_own_but_few_in_tables(page: str, times: int) -> None:
    seen = census((page * times).encode())
    assert _depth(HTMLTree.parse(page * times).document) <= seen.starts + 2 * seen.tables + nesting.ABOVE


def _tags_too_deep(html: str, few: int = FEW_TAGS) -> bool:
    return tags_too_deep(html, census(html.encode("utf-8", "surrogatepass")), few=few)


def _levels(page: str) -> int:
    return nesting.levels(HTMLTree.parse(page), census(page.encode()))


def _depth(root: DOMNode) -> int:
    deepest, found = 0, [(root, 0)]
    while found:
        node, depth = found.pop()
        deepest = max(deepest, depth)
        child = node.first_child
        while child is not None:
            found.append((child, depth + 1))
            child = child.next
    return deepest
