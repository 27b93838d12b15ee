"""Pages that would take extraction the square of their size: each is read, or refused, in time that grows with it."""

import pytest

from tutti.corpus.documents.documents import Document, Extraction
from tutti.ingest.crawl.links import said
from tutti.ingest.reading.containers import Page
from tutti.ingest.reading.extraction import extract
from tutti.ingest.reading.rejections import Reason, Rejection

LINE = "<p>Some words of text in here.</p>\n"
NAV = "<nav>Home</nav><main>"


def extracted(html: str) -> Document:
    document = extract(Page("a.html", f"<html><body>{html}".encode()))
    assert isinstance(document, Document), document
    return document


def test_a_page_of_very_many_paragraphs_is_read_whole() -> None:
    document = extracted("<p>x" * 600_000)
    assert document.text.count("x") == 600_000
    assert document.text.startswith("x\n\nx")


def test_main_content_is_looked_for_on_every_page_but_the_longest() -> None:
    page = NAV + LINE * 10_000 + "</main>"
    assert extracted(page).extraction is Extraction.MAIN
    assert extracted(page).text == "\n\n".join(["Some words of text in here."] * 10_000)
    assert extracted(page + "<script>" + "x" * 9_000_000 + "</script>").extraction is Extraction.MAIN


def test_lists_in_lists_are_read_without_the_spaces_that_indent_their_lines() -> None:
    document = extracted("<ul>" * 500 + "<li>x" * 200_000)
    assert document.text.count("x") == 200_000
    assert len(document.text) < 20 * 200_000


@pytest.mark.parametrize("page", ["<div>" * 400 + "</p>" * 500_000, "<div>" * 400 + "<p><i></i></p>" * 100_000])
def test_empty_elements_at_a_great_depth_are_no_text(page: str) -> None:
    rejection = extract(Page("a.html", f"<html>{page}".encode()))
    assert isinstance(rejection, Rejection)
    assert rejection.reason is Reason.EMPTY


@pytest.mark.parametrize("option", ["<option>x", "<OPTION value=1>x</OPTION>", "<optgroup>x<option/>"])
def test_a_list_of_very_many_options_is_no_text(option: str) -> None:
    assert extracted("<p>Words.</p><select>" + option * 150_000 + "</select>").text == "Words."


def test_the_links_of_a_page_with_very_many_are_read_once() -> None:
    page = "".join(f"<a href=/{number}>x</a>" for number in range(15_000)).encode()
    assert len(said("http://a.example/", b"<html>" + page, agent="Tutti").links) == 15_000


def test_a_block_within_a_label_is_text_and_the_name_of_a_field_is_not() -> None:
    assert extracted("<label><a href=x><div>Words of a card</div></a></label>").text == "Words of a card"
    assert extracted("<form><label>Name <input></label></form><p>Words.").text == "Words."
