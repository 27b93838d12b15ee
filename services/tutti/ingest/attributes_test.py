"""Attributes: counted alike by the kernel and by Python, and a page of very many refused before it is parsed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.ingest import attributes
from tutti.ingest.attributes import FEW, LEAST_BYTES, MOST, cost, counted, native, too_many_attributes
from tutti.ingest.containers import Page
from tutti.ingest.crawl.links import Said, said
from tutti.ingest.extraction import extract
from tutti.ingest.rejections import Reason, Rejection

KERNEL = pytest.mark.skipif(native().library is None, reason=native().why_not)
MANY = b"a " * (FEW + 1)

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
        *(b"<svg>", b"<math ", b"</svg>", b"b=c", b"b = 'c'", b'b="<i>"', b"b=", b"=b", b"<q " + MANY, MANY),
    ]
)


@KERNEL
@settings(deadline=None)
@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_the_kernel_counts_what_python_counts(page: bytes) -> None:
    assert cost(page) == counted(page)


def many(number: int) -> bytes:
    return b" ".join(b"a%d" % each for each in range(number))


def squares(page: bytes) -> int:
    assert counted(page) == cost(page)
    return cost(page)


def test_attributes_of_tags_are_counted_and_nothing_else() -> None:
    assert squares(b"<p " + many(100) + b">") == 100**2
    assert squares(b"<p " + many(FEW) + b">") == 0
    assert squares(b"<p>" + many(100) + b"</p>") == 0
    assert squares(b"<p " + many(100) + b"><p " + many(200) + b" a='>' b>") == 100**2 + 202**2
    assert squares(b"<!-- <p " + many(100) + b"> -->") == 0
    assert squares(b'<!-- <p a=" --><p ' + many(100) + b'>"') == 100**2
    assert squares(b"<script>if (a<b " + many(100) + b") {}</script>") == 0
    assert squares(b"<svg><script><p " + many(100) + b"></script></svg>") == 100**2


@pytest.mark.parametrize(
    "page",
    [
        b"<html><p " + many(100_000) + b">text",
        b"<html><p " + b" ".join(b"a%d='>'" % each for each in range(20_000)) + b">text",
        b"<html><p>text" + (b"<p " + many(5_000) + b">") * 10,
    ],
)
def test_a_page_of_very_many_attributes_is_refused_before_it_is_parsed(page: bytes) -> None:
    assert too_many_attributes(page)
    found = extract(Page("page", page))
    assert isinstance(found, Rejection)
    assert found.reason is Reason.TOO_DEEP
    assert "attributes" in found.detail
    assert said("http://a.example/", page, agent="Tutti") == Said()


def test_few_short_names_are_on_a_small_page() -> None:
    """No page below LEAST_BYTES is dear: there are not enough names that short."""
    names = 60 + 60**2  # of one and of two bytes
    assert names < MOST**0.5
    assert 2 * 60 + 3 * 60**2 + 4 * (MOST**0.5 - names) > LEAST_BYTES
    assert not too_many_attributes(b"<p " + many(2_000) + b">")
    assert attributes.LEAST_BYTES == LEAST_BYTES
