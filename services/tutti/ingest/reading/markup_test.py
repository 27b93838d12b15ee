"""Markup: rewritten alike by the kernel and by Python, into pages that a parser reads as they are written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import DOMNode, HTMLTree

from tutti.ingest.reading.maincontent import visible_text
from tutti.ingest.reading.markup import native, rewritten
from tutti.ingest.reading.markupkinds import KINDS, MAX_DEPTH, Mode
from tutti.ingest.reading.markuptwin import written

KERNEL = pytest.mark.skipif(native().library is None, reason=native().why_not)
NAMES = [*KINDS, "x-y", "xmp", "plaintext", "DIV", "A", "svg/"]
LONG = " style='" + "\u00e9" * 300 + "x'"
# What the rules of a tag are about: each piece may begin, hide or end one.
PIECES = st.sampled_from(
    [
        *(f"<{name}>" for name in NAMES),
        *(f"</{name}>" for name in NAMES),
        *("<div>", "</div>", "<p>", "</p>", "<a href=x>", "</a>", "<b class=x>", "</b>", "<table><tr><td>", "</table>"),
        *("<!--", "-->", "--!>", "->", "--", "<!-->", "<!--->", "<!x>", "<![CDATA[", "]]>", "<?x>", "</>", "</"),
        *("<script>", "</script", "<script><!--<script></script>", "</SCRIPT ", "<title>", "</title/", "<a ", "<p/"),
        *(" class=footer", " class='Cookie x'", ' id="a>b"', " hidden", " HREF = y", " class", "=", "'", '"', " ", ">"),
        *("<math>", "<annotation encoding=application/x-tex>", "</annotation>", "<sup>", "</sup>"),
        *("<math alttext='a<b'>", "</math>", "<semantics>", "<sup><a href=x>"),
        *("<script type=math/tex>", "<span class=MathJax>", "<span style='display: none'>", "<nobr aria-hidden=true>"),
        *("<button>", "<aside id=mySidebar>", "<h2><a href=#x>", "<p class=no-footer>", f"<p>{'x y ' * 16}", "<h1>"),
        *("<div class=footer>", "<li class=related>", "<label class=x>", "<h1>", "<img src=x>", "<frame src=y>"),
        *("<div class=comment><p>", "x", "\u00e9", "\U0001f600", "<", "&lt;", "&", "\0", "\n", "<q id=1 id=2>", LONG),
    ]
)  # fmt: skip
PAGES = st.lists(PIECES, max_size=60).map("".join)


BLOCKS = ["div", "section", "ul", "li", "blockquote", "table", "tr", "td", "h2", "pre", "center", "form", "dl", "dd"]
PHRASES = ["b", "a href=x", "span class=x", "i", "em", "code", "time", "x-y", "sub", "font"]

LEAVES = [
    "words",
    " more ",
    "&amp;",
    "<br>",
    "<svg><text>x</text></svg>",
    "<select><option>x</select>",
    "<hr>",
    "<!--x-->",
    "<label>x</label>",
]


def _within(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    elements = st.sampled_from([*BLOCKS, *PHRASES, "p"])
    contents = st.lists(inner, min_size=1, max_size=4).map("".join)
    return st.tuples(elements, contents).map(lambda two: f"<{two[0]}>{two[1]}</{two[0].split()[0]}>")


@KERNEL
@given(PAGES, st.sampled_from(Mode))
def test_the_kernel_writes_what_python_writes(page: str, mode: Mode) -> None:
    assert rewritten(page.encode(), mode) == written(page.encode(), mode)


@given(PAGES, st.integers(1, 30), st.sampled_from(Mode))
def test_a_parser_makes_few_elements_of_a_page_and_nests_them_as_deep_as_is_told(
    page: str, times: int, mode: Mode
) -> None:
    """Of a table with a cell alone a parser makes two more, and of a page three."""
    found = rewritten((page * times).encode(), mode)
    tree = HTMLTree.parse(found.html.decode())
    starts = len(re.findall(b"<[a-z]", found.html))
    assert len(tree.document.get_elements_by_tag_name("*")) <= 3 * starts + 3
    if mode is not Mode.LINKS and not found.too_deep:
        assert _depth(tree.document) <= 4 * found.levels + 4


@given(st.recursive(st.sampled_from(LEAVES), _within, max_leaves=20))
def test_a_well_formed_page_shows_the_same_text_as_before(body: str) -> None:
    page = f"<!doctype html><title>Words &amp; more</title><body>{body}"
    found = rewritten(page.encode(), Mode.VISIBLE)
    expected = extract_plain_text(HTMLTree.parse(page), main_content=False, alt_texts=False)
    assert _characters(visible_text(found.html.decode(), lines=True)) == _characters(expected)
    assert found.title == "Words & more"


def many(number: int) -> bytes:
    return b" ".join(b"a%d" % each for each in range(number))


BOLD = b"".join(b"<b id=x%d>" % each for each in range(500))
PARAGRAPHS = b"<p>x" * 9_000


@pytest.mark.parametrize(
    "page",
    [
        b"".join(b"<body a%d>" % each for each in range(15_000)),
        b"".join(b"<html a%d>" % each for each in range(15_000)),
        b"<p " + many(100_000) + b">text",
        b"<p " + b"class=a " * 100_000 + b">text",
        b"<p " + b" ".join(b"a%d='>'" % each for each in range(20_000)) + b">text",
        b"<script><!--<script></script><i a='--></script><p " + many(12_000) + b">",
        b"<svg><![CDATA[><!--]]><p " + many(12_000) + b">",
        b"<svg><![CDATA[>" + b"<p " * 50_000,
        BOLD + PARAGRAPHS,
        b"<div>" + BOLD + b"x</div>" + b"<div>x</div>" * 5_000,
        b"<ul><li>" + BOLD + b"x" + b"<li>x" * 9_000,
        b"<p><font " + many(60) + b">" + BOLD + b"x" + PARAGRAPHS,
        b"<p>" + BOLD + b"<table>" + b"</b>" * 500 + b"</table>" + PARAGRAPHS,
        b"<p>" + BOLD + b"<object>" + b"</b>" * 500 + b"</object>" + PARAGRAPHS,
        b"<p>" + BOLD + b"<select>" + b"</b>" * 500 + b"</select>" + PARAGRAPHS,
        b"<svg><script>" + BOLD + b"</script><title>" + b"</b>" * 500 + b"</title>" + PARAGRAPHS,
        b"<svg><title><!--</title><p>" + BOLD + PARAGRAPHS,
        b"<script><!--<script></script><i a='--></script>" + BOLD + PARAGRAPHS,
        b"".join(b"<a href=%d><div>" % each for each in range(500)) + PARAGRAPHS,
        b"<div><a href=x>" * 9 + b"</a>" * 9 + PARAGRAPHS,
        b"<a href=x><table><tr><td>" * 100 + b"</a>" * 9_000 + PARAGRAPHS,
        b"</p>" * 50_000,
        b"<div><object></div></object>" * 50_000,
    ],
)  # fmt: skip
def test_what_a_page_makes_a_parser_do_is_in_proportion_to_it(page: bytes) -> None:
    """A parser compares each attribute with those before it, and opens formatting again in each paragraph behind it."""
    for mode in Mode:
        html = rewritten(page, mode).html
        assert len(html) <= 4 * len(page)
        assert all(tag.count(b"=") <= 12 for tag in re.findall(b"<[^>]*>", html))
        assert len(HTMLTree.parse(html.decode()).document.get_elements_by_tag_name("*")) <= 2 * page.count(b"<") + 3


@pytest.mark.parametrize(
    ("page", "deep"),
    [
        (b"<div>" * MAX_DEPTH, False),
        (b"<div>" * (MAX_DEPTH + 1), True),
        (b"<div></div>" * 2 * MAX_DEPTH, False),
        (b"<td><p>" * 2 * MAX_DEPTH, False),
        (b"<font>" * 2 * MAX_DEPTH, False),
        (b"<!-- " + b"<div>" * 2 * MAX_DEPTH, False),
        (b"<script>" + b"<div>" * 2 * MAX_DEPTH + b"</script>", False),
        (b"<div><object></div></object>" * 2 * MAX_DEPTH, True),
        (b"<nav>" + b"<div>" * 2 * MAX_DEPTH, True),
    ],
)
def test_elements_that_can_nest_are_counted_while_they_are_open(page: bytes, deep: bool) -> None:
    assert [rewritten(page, mode).too_deep for mode in Mode] == [deep, deep, False]
    assert written(page, Mode.MAIN).too_deep is deep


def main(html: str) -> str:
    return rewritten(html.encode(), Mode.MAIN).html.decode()


def test_tags_are_well_nested_and_what_nobody_reads_is_left_out() -> None:
    assert main("<div a=b class='c d'><p>x<p><b>y</div>z") == "<div><p>x</p><p>y</p></div>z"
    assert main("<ul><li>x<li>y</ul></p>") == "<ul><li>x</li><li>y</li></ul><p></p>"
    assert main("<td>x<table><td>y<th>z") == "x<table><td>y</td><th>z</th></table>"
    assert main("x<!-- y --><script>z</script><style>z</style><svg><text>z</svg><img src=z>") == "x"
    assert main("<!doctype html><html><head></head><body class=c>a < b</body>") == "a &lt; b"
    assert main("<i class=x>y</i><x-y class=x>y</x-y><a href=x><div>y</a>z</div>") == "y<span>y</span><div>yz</div>"


def test_boilerplate_is_left_out_of_main_content_alone_and_not_around_a_heading() -> None:
    page = "x<nav>y</nav><div class='Site-Footer'>y<p>y</div>"
    assert main(page) == "x"
    assert rewritten(page.encode(), Mode.VISIBLE).html == b"x<nav>y</nav><div>y<p>y</p></div>"
    assert main("<div class=footer><h1>y</h1></div>") == "<div><h1>y</h1></div>"


PROSE = "The library is open every day, and all people of the town may read its books there. "


def test_what_has_a_name_of_boilerplate_or_leads_elsewhere_is_left_out_where_it_has_no_prose() -> None:
    for beside in ("<div class=Social-links>x</div>", "<ul class=main-menu><li>x</ul>", "<ul><li><a href=x>y</a></ul>"):
        assert main(f"<div><p>{PROSE * 4}</p>{beside}</div>") == f"<div><p>{PROSE * 4}</p></div>"
    assert main(f"<div class=author><p>{PROSE}</div>") == f"<div><p>{PROSE}</p></div>"
    assert main("<div class=menu><h1>x</h1></div><h3>y <a href=x>z</a></h3>").count("x") == 1


def test_behind_an_article_nothing_without_prose_is_left() -> None:
    article = f"<div><p>{PROSE * 3}</p><p>x</p></div>"
    for behind in ("<div>x</div>", "<ul><li>x</ul>", "<section><h2>x</h2></section>", "<p>x</p><p>y</p>"):
        assert main(article + behind) == article
        assert written((article + behind).encode(), Mode.MAIN).html == article.encode()
    kept = f"<h2>x</h2><h1>y</h1><p>{PROSE}</p>"
    assert main(article * 5 + kept)[-len(kept) :] == kept
    assert main(f"<div><p>{PROSE}</p></div><div>x</div>").endswith("<div>x</div>")


def test_names_are_compared_as_whole_words() -> None:
    for name in ("commentary", "navigator", "contentWithSidebar", "has-footer-widgets", "no-comments", "shareholders"):
        assert "Words" in main(f"<div class={name}><p>{PROSE}</div><div class={name}>Words</div>")
    for name in ("post-comments", "siteFooter", "main_nav", "sidebar2", "Cookie"):
        for attribute in ("class", "id", "role"):
            assert main(f"<p>{PROSE * 3}</p><div {attribute}={name}><p>{PROSE}</div>") == f"<p>{PROSE * 3}</p>"
    assert "Words" in main(f"<section id=comments><h2 id=comments>Words</h2><p>{PROSE}</p></section>")


@pytest.mark.parametrize("name", ["class=sidebar", "id=comments", "hidden", "style='display: none'", "role=navigation"])
def test_an_element_with_most_of_the_prose_is_never_left_out(name: str) -> None:
    assert main(f"<div {name}><p>{PROSE * 3}</div><p>{PROSE}</p>").count(PROSE) == 4
    assert main(f"<div {name}><p>{PROSE}</div><p>{PROSE * 3}</p>").count(PROSE) == 3
    assert main(f"<nav><p>{PROSE * 3}</nav><p>{PROSE}</p>").count(PROSE) == 4


@pytest.mark.parametrize("mode", [Mode.MAIN, Mode.VISIBLE])
def test_hidden_text_is_left_out(mode: Mode) -> None:
    page = "<b hidden>x</b><i style='color:red;DISPLAY: none'>x</i><u aria-hidden=true>x</u><b hidden=until-found>a</b>"
    assert rewritten(f"<p>{page}</p><p>{PROSE}</p>".encode(), mode).html == f"<p>a</p><p>{PROSE}</p>".encode()


@pytest.mark.parametrize("mode", [Mode.MAIN, Mode.VISIBLE])
def test_a_formula_is_its_source_once_and_a_superscript_has_a_sign(mode: Mode) -> None:
    tex = "<annotation encoding='application/x-tex'>a &lt; b</annotation>"
    for formula, source in {
        f"<math><semantics><mrow><mi>a</mi></mrow>{tex}</semantics></math>": "a &lt; b",
        f"<span style='display:none'><math><mi>a</mi>{tex}</math></span>": "a &lt; b",
        "<math alttext='a<b'><mi>a</mi></math>": "a&lt;b",
        "<span class=MathJax>a</span><script type='math/tex; mode=display'>a&b<c</script>": "a&amp;b&lt;c",
        "<math><mi>a</mi></math><script type=math/tex>1</script><script type=math/tex>2</script>": "12",
        "<math><mi>a</mi></math>": "a",
        "10<sup>-3</sup> m<sup>2</sup> e<sup><i>x</i></sup>": "10^-3 m^2 e^x",
        "the 19<sup>th</sup><sup></sup> time<sup><a href=x>[1]</a></sup>": "the 19th time[1]",
    }.items():
        assert rewritten(f"<p>x {formula} y</p>".encode(), mode).html == f"<p>x {source} y</p>".encode()


def test_of_links_what_names_a_page_is_left() -> None:
    page = b"<base href=/x><p><a href='y' class=z>y</a><a>y</a><template><a href=n></template><frame src=z><link rel=q>"
    links = rewritten(page, Mode.LINKS).html
    assert links == b"<base href=/x><a href='y'></a><a></a><iframe src=z></iframe><link rel=q>"


def _characters(text: str) -> str:
    """Of a text: around what formats a part of a line in a list there are spaces without end."""
    return "".join(text.split())


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
