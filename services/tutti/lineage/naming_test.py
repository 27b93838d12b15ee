"""Names of pages as people give them."""

import pytest

from tutti.chassis.errors import InvalidField
from tutti.lineage.naming import is_beginning, meant, near

PAGES = ("http://a.example/docs/os.html", "http://a.example/docs/os.path.html", "os.html.en", "docs/re.html")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("docs/re.html", "docs/re.html"),
        ("os.html.en", "os.html.en"),
        ("os.html", "http://a.example/docs/os.html"),
        ("/docs/os.html", "http://a.example/docs/os.html"),
        ("os.path", "http://a.example/docs/os.path.html"),
        ("array", ""),
        ("", ""),
    ],
)
def test_a_page_is_meant_by_its_source_by_how_it_ends_and_by_what_it_holds(wanted: str, found: str) -> None:
    assert meant(wanted, PAGES) == found


def test_of_several_pages_none_is_meant_and_some_are_named() -> None:
    with pytest.raises(InvalidField, match=r"one page; there are docs/re\.html, http://a\.example/docs/os\.html, http"):
        meant("docs/", PAGES)
    with pytest.raises(InvalidField, match=r"2\.html, 3\.html, 4\.html and 2 more"):
        meant(".html", [f"{number}.html" for number in range(7)])


def test_pages_with_a_similar_last_part_are_near() -> None:
    assert near("/home/a/docs/osx.html", PAGES)[0] == "http://a.example/docs/os.html"
    assert near("re.htm", PAGES)[0] == "docs/re.html"
    assert near("zzzzzz", PAGES) == []
    assert len(near("os.html", [f"os{number}.html" for number in range(9)])) == 3


def test_the_beginning_of_an_id_is_eight_digits_or_more() -> None:
    assert is_beginning("0a1b2c3d")
    assert not is_beginning("0a1b2c3")
    assert not is_beginning("0a1b2c3d.html")
