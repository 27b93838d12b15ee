"""Curves over each other: every run has a line, its letter, and a place where no other letter is."""

import math
import re
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from tutti.web.charts import Series
from tutti.web.overlays import APART, LINES, described, overlaid, overlay

VALUES = st.floats(min_value=-1e6, max_value=1e6) | st.just(math.nan)
CURVES = st.lists(VALUES, min_size=0, max_size=60).map(lambda values: list(enumerate(values, 1)))


@given(st.lists(CURVES, min_size=1, max_size=LINES), st.booleans(), st.booleans())
@example([[(1, 5e-324)]], True, False)
@example([[(1, 5e-324), (2, 3.0)]], False, False)
def test_each_line_with_a_number_to_draw_has_a_letter_apart_from_the_others(
    found: list[list[tuple[float, float]]], logarithmic: bool, large: bool
) -> None:
    letters = [chr(ord("a") + at) for at in range(len(found))]
    several = {
        letter: [Series("Loss <", "Nats", points, logarithmic=logarithmic, large=large)]
        for letter, points in zip(letters, found, strict=True)
    }
    (made,) = overlaid(several)
    svg = overlay(made, ident="c")
    drawn = [
        letter
        for letter, points in zip(letters, found, strict=True)
        if any(math.isfinite(value) and (value > 0 or not logarithmic) for _, value in points)
    ]
    if not drawn:
        assert svg == ""
        return
    texts = re.findall(r'<text class="over-letter over\d" x="[\d.]+" y="([-\d.]+)">(\w)</text>', svg)
    assert sorted(letter for _, letter in texts) == drawn
    places = sorted(float(place) for place, _ in texts)
    assert all(after - before >= APART - 0.2 for before, after in pairwise(places))
    assert "nan" not in re.sub(r"<(title|desc).*?</\1>", "", svg)


def test_charts_have_the_titles_of_all_runs_and_their_lines_keep_their_numbers() -> None:
    loss, reward = Series("Loss", "Nats", [(1, 2.0)]), Series("Reward", "Mean", [(1, 0.5)])
    first, second = overlaid({"a": [loss], "b": [loss, reward]})
    assert [(each.number, each.letter) for each in first.lines] == [(0, "a"), (1, "b")]
    assert [(each.number, each.letter) for each in second.lines] == [(1, "b")]
    assert described(first).startswith("a: Nats: 2 at step 1")
