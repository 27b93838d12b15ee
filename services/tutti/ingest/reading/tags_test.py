"""Tags: counted alike by the kernel and by Python, and a page that they make too dear refused before it is parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from tutti.ingest.crawl.links import PageLinks, said
from tutti.ingest.reading.containers import Page
from tutti.ingest.reading.extraction import extract
from tutti.ingest.reading.rejections import Reason, Rejection
from tutti.ingest.reading.tags import FEW, LEAST_BYTES, LIGHT, MOST, MOST_REBUILT, costs, counted, native, too_dear

KERNEL = pytest.mark.skipif(native().library is None, reason=native().why_not)
MANY = b"a " * (FEW + 1)
OPEN = b"<p>" + b"".join(b"<b id=x%d>" % each for each in range(LIGHT)) + b"x"

# What the rules of a tag are about: each piece may begin, hide or end one, and some have more than FEW attributes.
PIECES = st.sampled_from(
    [
        *(b"<a ", b"<b>", b"</a ", b"<A/", b"<", b"</", b">", b"/", b"=", b"'", b'"', b" ", b"\n", b"x", b"\xc3\xa9"),
        *(b"<!--", b"-->", b"--!>", b"->", b"--", b"<!-->", b"<!--->", b"<!x ", b"<?x", b"</1"),
        *(
            b"<script>",
            b"</script ",
            b"</SCRIPT",
            b"<style ",
            b"</style>",
            b"<title>",
            b"</title/",
            b"<scripts ",
            b"<xmp>",
        ),
        *(b"<body ", b"<BODY x>", b"<html/", b"<html a b>", b"</body ", b"<body" + b"><body x y" * 2),
        *(
            b"<svg>",
            b"<math ",
            b"</svg>",
            b"<![CDATA[",
            b"]]>",
            b"<script><!--<script></script>",
            b"b=c",
            b"b = 'c'",
            b'b="<i>"',
            b"b=",
            b"=b",
            b"<q " + MANY,
            MANY,
        ),
    ]
)
# What formats, in every kind of element that keeps it from what is outside, or hides it.
FORMATTING = st.sampled_from(
    [
        *(b"<b>", b"</b>", b"<b id=1>", b"<a href=1>", b"<a href=2>", b"</a>", b"<nobr>", b"<font a b>", b"</font>"),
        *(b"<p>x", b"</p>", b"<table>", b"</table>", b"<td>", b"</td>", b"<th>", b"</th>", b"<caption>", b"<tr>"),
        *(b"<object>", b"</object>", b"<select>", b"</select>", b"<svg>", b"<svg/>", b"</svg>", b"<svg a=b/>"),
        *(b"<script>", b"<!--", b"-->", b"</script>", b"<title>", b"</title>", b"<![CDATA[", b"]]>", b'<i a="', b'">'),
        *(b"<B\n>", b"<i<b>", b"<table><td>" * 90, b"<b>" * 4, OPEN, OPEN),
    ]
)


@KERNEL
@given(st.lists(PIECES, max_size=30).map(b"".join) | st.lists(FORMATTING, max_size=40).map(b"".join))
def test_the_kernel_counts_what_python_counts(page: bytes) -> None:
    assert costs(page) == counted(page)


def many(number: int) -> bytes:
    return b" ".join(b"a%d" % each for each in range(number))


def squares(page: bytes) -> int:
    assert counted(page) == costs(page)
    return costs(page).attributes


def rebuilt(page: bytes) -> int:
    assert counted(page) == costs(page)
    return costs(page).rebuilt


def test_attributes_of_tags_are_counted_and_nothing_else() -> None:
    assert squares(b"<p " + many(100) + b">") == 100**2
    assert squares(b"<p " + many(FEW) + b">") == 0
    assert squares(b"<p>" + many(100) + b"</p>") == 0
    assert squares(b"<p " + many(100) + b"><p " + many(200) + b" a='>' b>") == 100**2 + 202**2
    assert squares(b"<!-- <p " + many(100) + b"> -->") == 0
    assert squares(b'<!-- <p a=" --><p ' + many(100) + b'>"') == 100**2
    assert squares(b"<script>if (a<b " + many(100) + b") {}</script>") == 0
    assert squares(b"<svg><script><p " + many(100) + b"></script></svg>") == 100**2


def test_attributes_of_repeated_bodies_and_of_repeated_html_are_those_of_one_tag() -> None:
    """The parser compares each with all that the first of them has by then."""
    bodies = b"".join(b"<body a%d>" % each for each in range(100))
    assert squares(bodies) == 100**2 - 100
    assert squares(bodies.replace(b"body", b"HTML")) == 100**2 - 100
    assert squares(bodies + bodies.replace(b"body", b"html")) == 2 * (100**2 - 100)
    assert squares(b"<body " + many(100) + b"><body " + many(100) + b" b>") == (100 + 101) ** 2
    assert squares(bodies.replace(b"<", b"</")) == squares(bodies.replace(b"body", b"p")) == 0
    assert squares(b"<!--" + bodies + b"-->") == squares(b"<script>" + bodies + b"</script>") == 0
    assert squares(b"<svg><script>" + bodies) == 100**2 - 100
    assert squares(b"<body a b><p>" * 100) == 2 * 2 * 2 * 99  # pages behind each other: they bring no more


@pytest.mark.parametrize(
    "page",
    [
        b"<html><body><p>x" + b"".join(b"<body a%d>" % each for each in range(15_000)),
        b"<html><body><p>x" + b"".join(b"<html a%d>" % each for each in range(15_000)),
        b"<html><p " + many(100_000) + b">text",
        b"<html><p " + b" ".join(b"a%d='>'" % each for each in range(20_000)) + b">text",
        b"<html><p>text" + (b"<p " + many(5_000) + b">") * 10,
        b"<script><!--<script></script><i a='--></script><p " + many(12_000) + b">",
        b"<svg><![CDATA[><!--]]><p " + many(12_000) + b">",
        b"<svg><![CDATA[><!--]]>" + b"".join(b"<body a%d>" % each for each in range(15_000)),
        b"<svg><![CDATA[>" + b"<p " * 50_000,
    ],
)
def test_a_page_of_very_many_attributes_is_refused_before_it_is_parsed(page: bytes) -> None:
    assert "attributes" in refused(page)


def refused(page: bytes) -> str:
    found = extract(Page("page", page))
    assert isinstance(found, Rejection)
    assert found.reason is Reason.TOO_DEEP
    assert found.detail == too_dear(page)
    assert said("http://a.example/", page, agent="Tutti") == PageLinks()
    return found.detail


def test_few_short_names_are_on_a_small_page() -> None:
    """No page below LEAST_BYTES is dear: there are not enough names that short."""
    assert 3 * MOST**0.5 > LEAST_BYTES
    # Three bytes, and three for an attribute, are what is rebuilt; and four of a tag are where.
    assert (LEAST_BYTES / 2 / 3) * (LEAST_BYTES / 2 / 4) < MOST_REBUILT
    assert not too_dear(b"<p " + many(2_000) + b">")


BOLD = b"".join(b"<b id=x%d>" % each for each in range(500))
PARAGRAPHS = b"<p>x" * 9_000


@pytest.mark.parametrize(
    "page",
    [
        b"<html><p>" + BOLD + b"x" + PARAGRAPHS,
        b"<html><p>" + BOLD + b"x" + b"<p>x" * 3_000,
        b"<html><div>" + BOLD + b"x</div>" + b"<div>x</div>" * 5_000,
        b"<html><ul><li>" + BOLD + b"x" + b"<li>x" * 9_000,
        b"<html><p><font " + many(60) + b">" + BOLD + b"x" + PARAGRAPHS,
        b"<html><p>" + BOLD + b"<table>" + b"</b>" * 500 + b"</table>" + PARAGRAPHS,
        b"<html><p>" + BOLD + b"<object>" + b"</b>" * 500 + b"</object>" + PARAGRAPHS,
        b"<html><p>" + BOLD + b"<select>" + b"</b>" * 500 + b"</select>" + PARAGRAPHS,
        b"<html><p>" + BOLD + b"<!--" + b"</b>" * 500 + b"-->" + PARAGRAPHS,
        b"<html><p>" + BOLD + b"<svg><![CDATA[></svg>" + b"</b>" * 500 + b"]]></svg>" + PARAGRAPHS,
        b"<html><svg><script>" + BOLD + b"</script><title>" + b"</b>" * 500 + b"</title>" + PARAGRAPHS,
        b"<html><svg><title><!--</title><p>" + BOLD + PARAGRAPHS,
        b"<html><svg><p><title><!--</title>" + BOLD + PARAGRAPHS,
        b"<html><select><title><input>" + BOLD + PARAGRAPHS,
        b"<html><script><!--<script></script><i a='--></script>" + BOLD + PARAGRAPHS,
    ],
)
def test_a_page_whose_open_elements_would_be_rebuilt_in_each_paragraph_is_refused(page: bytes) -> None:
    assert "rebuilt" in refused(page)


@given(st.lists(FORMATTING, max_size=60).map(b"".join))
def test_no_less_is_counted_than_is_rebuilt(page: bytes) -> None:
    """Of a page whose formatting is open, paragraphs behind it have as many elements as the parser rebuilds."""
    behind = 200
    tree = HTMLTree.parse((page + b"<p>x</p>" * behind).decode(errors="replace"))
    seen = len(tree.document.get_elements_by_tag_name("*"))
    few = 33 * page.count(b"<")  # of a tag, with those that are cloned at the end of one
    assert seen <= few + behind * (1 + LIGHT) + rebuilt(page + b"<p>x</p>" * behind)


@pytest.mark.parametrize(
    "page",
    [
        b"<p><b>Words</b> and <i>words</i> of <a href=%d>one</a>.</p>",
        b"<p><font size=2><b>Words that are not closed, %d",
        b"<li><a name=n%d><tt>Words",
        b"<tr><td><font face=Arial size=2 color='#00%04d'>Words</font><td><a name=n><b>Words</b>",
        b"<a href=%d><svg viewBox='0 0 1 1'><title>Icon</title><path d='M0 0'/></svg> Words</a>",
        b"<a href=%d><svg role=img /> Words</a><i class='icon icon-%d'></i>".replace(b"-%d", b"-x"),
        b"<script>write('<b id=%d>')</script><p>Words",
        b"<b><table><tr><td><a href=%d>Words</a></table></b>",
    ],
)
def test_ordinary_formatting_is_no_cost(page: bytes) -> None:
    page = b"<!doctype html><title>Words</title><body><table>" * (b"<td>" in page[:9]) + b"".join(
        page % each for each in range(5_000)
    )
    assert rebuilt(page) <= MOST_REBUILT / 10
    assert not too_dear(page)
