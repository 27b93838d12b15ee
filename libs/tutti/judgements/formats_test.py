"""Formatting: what is counted, and that another format keeps the words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.judgements.formats import differ_in_format, formatting, marks, plain, restyled

SENTENCES = st.lists(st.text("abc *_`#-.1|", min_size=1, max_size=12), max_size=6).map(". ".join)
TEXTS = st.lists(SENTENCES, max_size=5).map("\n".join)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("Just words, 2 * 3 * 4, a-b, snake_case and C# too.", 0),
        ("# Title\n\nText\n### Part", 2),
        ("#hashtag\n####### seven", 0),
        ("- one\n* two\n+ three\n  - inner\n1. first\n2) second", 6),
        ("-no item\n2026. A year", 0),
        ("a **bold** word, **two of them**, ** none **", 2),
        ("run `make` and `make test`", 2),
        ("| a | b |\n|---|---|\n| 1 | 2 |", 3),
        ("```python\n# no heading\n- no item\n```\nand", 1),
        ("```\nnever closed\n- no item", 1),
        ("- **one**: `x`", 3),
    ],
)
def test_marks_are_counted_by_what_they_are(text: str, count: int) -> None:
    assert marks(text) == count


def test_formatting_is_zero_without_marks_and_grows_less_with_each() -> None:
    amounts = [formatting("- x\n" * count) for count in range(4)]
    assert amounts == [0.0, 1.0, pytest.approx(1.585, abs=1e-3), 2.0]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Yes. It rains!\nStay in", "- **Yes**.\n- **It** rains!\n- **Stay** in"),
        ("是的。 下雨了。", "- **是的**。\n- **下雨了**。"),
        ("# Rain\n- **stay** in\n- `umbrella`", "Rain\nstay in\numbrella"),
    ],
)
def test_the_same_words_have_another_format(text: str, other: str) -> None:
    assert restyled(text) == other
    assert differ_in_format(text, other)


@pytest.mark.parametrize("text", ["", "One sentence alone", "| a | b |\nA. B.", "So:\n```\nx = 1\n```\nDone. Really."])
def test_a_text_that_allows_no_other_format_has_none(text: str) -> None:
    assert restyled(text) is None


@given(TEXTS)
def test_another_format_keeps_every_word_and_changes_the_marks(text: str) -> None:
    other = restyled(text)
    if other is not None:
        assert plain(other).split() == plain(text).split()
        assert marks(other) != marks(text)


@given(TEXTS)
def test_a_text_without_marks_is_its_own_plain_text(text: str) -> None:
    if marks(text) == 0:
        assert plain(text) == text
    assert not differ_in_format(text, text)
