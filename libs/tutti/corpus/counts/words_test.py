"""Words: what is one, and what is a mark."""

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from tutti.corpus.counts.words import tokens

TOOL = Path(__file__).resolve().parents[4] / "tools" / "characters.py"

CASES = {
    "Two words.": ["Two", "words", "."],
    "don't (can't) dogs' \u2019tis it\u2019s": ["don't", "(", "can't", ")", "dogs", "'", "\u2019", "tis", "it\u2019s"],
    "3.14 1,000 1,a e.g. U.S.A.": ["3.14", "1,000", "1", ",", "a", "e.g", ".", "U.S.A", "."],
    "snake_case __init__": ["snake_case", "__", "init", "__"],
    "well... ---- !! ?!": ["well", "...", "----", "!!", "?", "!"],
    "state-of-the-art a/b": ["state", "-", "of", "-", "the", "-", "art", "a", "/", "b"],
    "\u6771\u4eac\u306f\u3001\u30ab\u30bf\u30ab\u30ca": [
        "\u6771",
        "\u4eac",
        "\u306f",
        "\u3001",
        "\u30ab\u30bf\u30ab\u30ca",
    ],
    "cafe\u0301s \u0301x": ["cafe\u0301s", "x"],
    "\u05e9\u05c1\u05dc\u05d5\u05dd \u0639\u0644\u064a\u0643\u0645": [
        "\u05e9\u05c1\u05dc\u05d5\u05dd",
        "\u0639\u0644\u064a\u0643\u0645",
    ],
    "a\u200bb a\u200db \u200d": ["a", "b", "a\u200db"],
    "\U0001f600\U0001f600\u2764\ufe0f": ["\U0001f600\U0001f600", "\u2764"],
    " \t\n\u00a0\u3000": [],
    "": [],
}


@pytest.mark.parametrize("text", CASES)
def test_a_text_has_these_tokens(text: str) -> None:
    assert [token.text for token in tokens(text)] == CASES[text]


def test_words_and_marks_are_told_apart() -> None:
    found = [(each.text, each.is_word, each.is_alphabetic) for each in tokens("x1 42 \u6771 ...")]
    assert found == [("x1", True, True), ("42", True, False), ("\u6771", True, True), ("...", False, False)]


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the table is made by Python 3.11, of Unicode 14")
def test_the_frozen_table_is_what_its_tool_makes() -> None:
    assert subprocess.run([sys.executable, str(TOOL), "--check"], check=False).returncode == 0
