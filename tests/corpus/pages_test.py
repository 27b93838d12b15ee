"""Small pages of the kinds that sites are made of: their main content is what a reader would copy."""

from pathlib import Path

import pytest

from tutti.ingest.reading.maincontent import main_text
from tutti.ingest.reading.markup import rewritten
from tutti.ingest.reading.markupkinds import Mode
from tutti.ingest.reading.markuptwin import written

CASES = Path(__file__).with_name("cases")
GAUGE, LIGHT = "every morning by the same woman for thirty one years", "tended by one family for four generations"
PAGES = {
    "pages/aside_note": ([GAUGE, "Do not touch the float while"], []),
    "pages/content_with_sidebar": (["The gauge at the mill", GAUGE, "for a whole winter"], ["Home", "Blog", "Imprint"]),
    "pages/faq_button": (
        ["1. Who reads the gauge today?", "An instrument", "2. May I read the notebooks?", "wash your hands"],
        [],
    ),
    "pages/hexo_figure": ([GAUGE, "def level(rows):\n    return sum(rows)"], ["1\n2", "level.py"]),
    "pages/hidden": ([GAUGE, "for a whole winter"], ["HIDDENATTR", "HIDDENSTYLE"]),
    "pages/katex": (["The discharge is Q = a h^{b} for levels"], ["Qah", "Q=a"]),
    "pages/time_inline": (["The flood of 12 March 1961 reached 412 cm", "until 19 March, longer"], []),
    "pages/wp_table": ([GAUGE, "Highest level", "412 cm", "1962", "for a whole winter"], []),
    "ownpages/mediawiki_formula": (
        ["The range is {\\displaystyle d={\\sqrt {2Rh}}} with R", "10^6 m", "19th century.[1]"],
        ["d=2Rh", "}}}}{"],
    ),
    "ownpages/mathjax_script": (
        ["The power is P = U I for direct current, and W = P t is"],
        ["PREVIEW", "P=UI", "W=Pt"],
    ),
    "ownpages/hidden_kinds": ([LIGHT, "FOUND by searching", "off by some degrees"], ["INVISIBLE", "ICONWORDS"]),
    "ownpages/layout_words": (["A commentary", LIGHT, "weather of that time"], ["Home", "Boats", "FOOTERWORDS"]),
    "ownpages/around_a_post": (
        ["The light", LIGHT, "weather of that time"],
        ["COOKIE", "Home", "MENUWORDS", "BIOWORDS", "TEASERHEAD", "TEASERTEXT", "COMMENTWORDS", "TAILWORDS"],
    ),
    "ownpages/linked_headings": (["Journal", "HEADINGONE", "HEADINGTWO", "HEADINGTHREE", LIGHT], []),
    "ownpages/final_list": (["one litre of oil", "LASTITEM"], ["LINKONE", "LINKTWO"]),
    "ownpages/line_numbers": ([LIGHT, 'def sight(book):\n    return book["sight"]', "of that time"], ["771", "772"]),
    "ownpages/buttons": (["Who?", "moved inland", "May I climb the tower?", "second Sunday"], ["SHARE"]),
    "ownpages/asides_and_times": (["The fog of 3 May 1911 lasted", "NOTEWORDS", LIGHT], ["SIDEWORDS"]),
    "ownpages/thread": (["FIRSTPOST", "SECONDPOST", "THIRDPOST"], ["Home", "COOKIE"]),
    "ownpages/unseen_words": ([LIGHT, "Read the rest of the book"], ["DIALOGWORDS", "SRWORDS", "HIDDENWORDS"]),
    "ownpages/table_and_breaks": (["The light", LIGHT, "off by some degrees"], ["Home", "Charts"]),
}


def test_every_page_has_its_right_answer() -> None:
    folders = CASES / "pages", CASES / "ownpages"
    assert {f"{path.parent.name}/{path.stem}" for folder in folders for path in folder.iterdir()} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_the_main_content_of_a_page_is_read_without_what_is_around_it(name: str) -> None:
    page = (CASES / f"{name}.html").read_bytes()
    markup = rewritten(page, Mode.MAIN)
    assert markup == written(page, Mode.MAIN)
    text, (has, has_not) = main_text(markup.html.decode()), PAGES[name]
    assert [each for each in has if each not in text] == []
    assert [each for each in has_not if each in text] == []
