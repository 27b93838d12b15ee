"""Visible text: the same words as from the extraction that it stands in for, and only where that takes too long."""

import pytest
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from tutti.corpus.documents import Document, Extraction
from tutti.ingest.encoding.census import census
from tutti.ingest.encoding.normalisation import normalise
from tutti.ingest.reading.containers import Page
from tutti.ingest.reading.extraction import extract
from tutti.ingest.reading.nesting import levels
from tutti.ingest.reading.visible import MOST, effort, visible_text

LINE = "<p>Some words of text in here.</p>\n"
INLINE = (
    "a abbr acronym b bdi bdo big blink cite code data del dfn em font i ins kbd label mark nobr q rb rp rt ruby "
    "s samp small span strike strong sub sup time tt u var wbr x-unknown"
)
OTHERS = (
    "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure footer "
    "form h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing main menu nav ol p pre search section summary ul "
    "xmp marquee object applet video canvas audio iframe noscript optgroup option br img input embed area map "
    "picture slot output meter"
)


def extracted(html: str) -> Document:
    document = extract(Page("a.html", f"<html><body>{html}".encode()))
    assert isinstance(document, Document), document
    return document


def of(html: str) -> int:
    tree = HTMLTree.parse(html)
    return effort(tree, tags=html.count("<"), characters=len(html), depth=levels(tree, census(html.encode())))


@pytest.mark.parametrize(
    "html",
    [
        "<p>a<p>b",
        "<div>a</div><div>b</div>c",
        "<h1>a</h1>b<p>c",
        "a<br>b<br><br>c",
        "<ul><li>a<li>b<ul><li>c</ul></ul>d",
        "<p>a <b>b</b>  c\n d<i>e</i><!-- f -->",
        "a\n<b> b </b> c<span></span>\u00a0d",
        "<pre>a\n  b\n\n\n\nc</pre>d",
        "<dl><dt>a<dd>b<dt>c</dl>",
        "<title>a</title><style>b</style><body><script>c</script>d<hr>e<template>f</template>",
        "<blockquote>a</blockquote>b<article>c</article>",
        "<table><tr><td>a<tr><td>b</table>c",
        "<p>a<p><p>b<p> \n <p>c",
        "<select><option>a</select><textarea>b</textarea>c",
        "",
        " \n ",
    ],
)
def test_it_is_written_as_the_extraction_of_all_text_writes_it(html: str) -> None:
    tree = HTMLTree.parse(html)
    assert normalise(visible_text(tree)) == normalise(extract_plain_text(tree, main_content=False, alt_texts=False))


def test_a_long_list_is_read_whole_where_main_content_would_take_too_long() -> None:
    document = extracted(LINE * 80_000)
    assert document.extraction is Extraction.BODY
    assert document.text == "\n\n".join(["Some words of text in here."] * 80_000)
    items = extracted("<ul>" + "<li>x" * 400_000)
    assert items.text == "\n".join(["  \u2022 x"] * 400_000)


def test_lists_in_lists_are_read_without_the_spaces_that_lie_before_their_lines() -> None:
    document = extracted("<ul>" * 500 + "<li>x" * 50_000)
    assert document.text.count("x") == 50_000
    assert len(document.text) < 20 * 50_000


def test_main_content_is_looked_for_on_every_page_but_the_longest() -> None:
    page = "<nav>Home</nav><main>" + LINE * 10_000 + "</main>"
    assert extracted(page).extraction is Extraction.MAIN
    assert extracted(page + "<script>" + "x" * 9_000_000 + "</script>").extraction is Extraction.MAIN
    assert extracted("<p>" + "<b>Some words</b> in here " * 100_000).extraction is Extraction.MAIN


def test_lists_in_lists_are_an_effort_for_the_spaces_before_their_lines() -> None:
    flat, deep = "<ul><li></ul>" * 400 + "<li>x" * 20_000, "<ul>" * 400 + "<li>x" * 20_000
    assert of(flat) < MOST < 100 * MOST < 200 * of(deep)
    assert of(deep) >= 20_000 * 20_000 * 2 * 400


def test_effort_is_blocks_times_what_is_written() -> None:
    words = len("Some words of text in here.\n")
    assert of(LINE * 1_000) == 0
    assert of(LINE * 40_000) > 40_000 * 40_000 * words > MOST
    assert of(LINE * 80_000) == pytest.approx(4 * of(LINE * 40_000), rel=0.01)


@pytest.mark.parametrize("name", f"{INLINE} {OTHERS}".split())
def test_every_element_that_breaks_a_line_is_counted(name: str) -> None:
    text = extract_plain_text(HTMLTree.parse(f"<body>x<{name}>y</{name}>z"), main_content=False, alt_texts=False)
    counted = of(LINE * 40_000 + f"<{name}></{name}>" * 40_000) > 1.5 * of(LINE * 40_000 + "<b></b>" * 40_000)
    assert counted or "\n" not in text.strip()
    assert not counted or name not in INLINE.split()
