"""Main content is the article, without what pages put beside and behind it."""

import pytest

from tutti.ingest.reading.maincontent import main_text
from tutti.ingest.reading.markup import rewritten
from tutti.ingest.reading.markupkinds import Mode

WORDS = "The library is open every day, and all people of the town may read its books there. " * 4
ARTICLE = f"<article><h1>Notes</h1><p>{WORDS}</p><p>{WORDS}</p></article>"
TEXT = f"Notes\n\n{WORDS.strip()}\n\n{WORDS.strip()}"


def of(html: str) -> str:
    return main_text(rewritten(html.encode(), Mode.MAIN).html.decode()).strip()


@pytest.mark.parametrize(
    "beside",
    [
        "<div class='site-footer'><p>Words of a footer that stand on every page of a site.</p></div>",
        "<div class=newsletter-box><p>Leave us your address and read about all of this first.</p></div>",
        "<aside><p>Other words that are beside the article and are on every page of this site.</p></aside>",
        "<p>Words outside of it.</p>",
        "<p>More on this</p><p>Another page</p>",
    ],
)
def test_what_is_beside_an_article_is_left_out(beside: str) -> None:
    assert of(ARTICLE + beside) == TEXT
    assert of(ARTICLE.replace("</article>", f"{beside}</article>")).startswith(TEXT)


def test_an_article_that_holds_little_of_a_page_is_not_read_alone() -> None:
    page = f"<article><p>{WORDS}</p></article>" + f"<div><p>{WORDS}</p></div>" * 4
    assert of(page).count(WORDS.strip()) == 5


def test_short_lines_stay_where_a_sentence_is_behind_them_or_a_page_has_no_sentence() -> None:
    assert of(f"<h2>Title</h2><p>Short</p><p>{WORDS}</p>") == f"Title\n\nShort\n\n{WORDS.strip()}"
    assert of("<p>one</p><p>two</p>") == "one\n\ntwo"


def test_a_class_of_the_whole_page_is_no_boilerplate() -> None:
    page = f"<div class=has-footer>{ARTICLE}</div>"
    assert of(page) == TEXT


@pytest.mark.parametrize(
    "last",
    [
        "<ul><li>one<li>two</ul>",
        "<ol><li>one</ol>",
        "<table><tr><td>one<td>two</table>",
        "<pre>if x:\n  one</pre>",
        "<p>Then run this:</p><pre><code>make one</code></pre>",
        "<p>Then run this:</p><figure class=highlight><table><tr><td><pre>import one\none.run()</pre></table></figure>",
        "<p>So we get</p><p><span class=katex><math><semantics><mi>E</mi><annotation encoding='application/x-tex'>"
        "\\text{one}</annotation></semantics></math></span></p>",
        "<p>So we get</p><p><math><mi>one</mi><mo>=</mo><mn>2</mn></math></p>",
        "<dl><dt>Height</dt><dd>one metre</dd></dl>",
        "<p>川の水位は四百十二センチであった one</p>",
        "<p>Boil water</p><p>Add one</p><p>Serve</p>",
        "<h2>Steps</h2><p>Boil one litre</p><p>Add salt</p><p>Serve</p>",
    ],
)
def test_lists_code_formulas_definitions_and_steps_stay_at_the_end(last: str) -> None:
    end = "<p>More on this</p>" if last.endswith("</ul>") else ""
    assert "one" in of(ARTICLE.replace("</article>", f"{last}{end}</article>"))


def test_a_sentence_without_a_full_stop_stays_in_scripts_whose_characters_are_words() -> None:
    sentence = "川の水位は四百十二センチであった"
    assert of(f"<article><p>{'水位は毎朝測られた。' * 20}</p><p>{sentence}</p></article>").endswith(sentence)


@pytest.mark.parametrize("steps", ["Boil water|Add salt|Serve", "Boil|Salt|Stir|Serve|Eat"])
def test_a_page_of_short_steps_keeps_them_all(steps: str) -> None:
    lines = steps.split("|")
    page = f"<article><h1>Soup</h1><p>Take a pot.</p>{''.join(f'<p>{line}</p>' for line in lines)}</article>"
    assert of(page).split("\n\n") == ["Soup", "Take a pot.", *lines]


def test_what_is_in_front_of_an_article_stays_where_it_has_prose_or_is_its_heading() -> None:
    article = f"<div class=text><p>{WORDS}</p></div>"
    lead = "This is what the article below is about, in a sentence that is long enough to be one."
    page = f"<div><ul><li>Start</ul></div><div><h2>Notes</h2><p>{lead}</p>{article}</div>"
    assert of(page) == f"Notes\n\n{lead}\n\n{WORDS.strip()}"


def test_teasers_below_an_article_are_left_out_and_a_page_of_teasers_is_not() -> None:
    teaser = f"<div><h3><a href=x>Teaser</a></h3><p>{WORDS[:70]}</p></div>"
    assert of(ARTICLE.replace("</article>", f"{teaser * 3}</article>")) == TEXT
    assert of(f"<div>{teaser * 6}</div>").count("Teaser") == 6
