"""Normalisation: the same text from the kernel and from Python, whatever stands in it."""

import random
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest.encoding.normalisation import _COMBINED, composed, native, normalise, normalise_title, written

KERNEL = pytest.mark.skipif(native().library is None, reason=native().why_not)

# What a rule is about, what composes with it, and words long enough to be copied in steps.
PIECES = st.sampled_from(
    [
        *(" ", "  ", "\t", "\n", "\n\n\n", "\r", "\r\n", "\x0b", "\x00", "\x7f", "\x85", "\x9f", "\xa0", "\xad"),
        *("\u202f", "\ufeff", "\u2028", "\u3000", "\u2000", "\u2001", "\ud800", "\udfff", "\U0001f600", "\uffff"),
        *("a", "e", "\u0301", "\u0327", "\u030a", "\u212a", "\u0340", "\u1100", "\u1161", "\u11a8", "\uf900", "\u0344"),
        *("\u201cquoted\u201d", "\u2026", "a plain line of words", "~tilde~ and more", "\u017f", "\u03b1\u0345"),
    ]
)


@KERNEL
@given(st.lists(PIECES | st.text(max_size=9), max_size=40).map("".join))
def test_the_kernel_writes_what_python_writes(text: str) -> None:
    assert normalise(text) == written(text)


@KERNEL
def test_the_kernel_knows_every_range_of_characters() -> None:
    shuffled = random.Random(0)
    for begin in [*range(0, 0x3400, 1 << 10), *range(0x3400, sys.maxunicode + 1, 1 << 14)]:
        codes = [chr(code) for code in range(begin, begin + (1 << 10))]
        shuffled.shuffle(codes)
        text = "e".join(codes) + "\n" + "\u0301 ".join(codes)
        assert normalise(text) == written(text), f"U+{begin:04X}"


MARKS = st.sampled_from(
    "\u0300\u0301\u0315\u0327\u0344\u0345\u0f71\u0f72\u0f73\u0f75\u0f81\u1161\u11a8\u3099\u0334ea\u1100\u00e9"
)


@given(st.lists(MARKS | st.characters(categories=["Mn"]), max_size=200).map("".join), st.text(max_size=40))
def test_a_text_is_composed_as_unicode_says_whatever_is_combined(marks: str, others: str) -> None:
    for text in (marks, others + marks + others + marks[::-1], "a" + marks.replace("e", "").replace("a", "")):
        assert composed(text) == unicodedata.normalize("NFC", text)


def test_combining_characters_are_compared_with_few_others() -> None:
    """So many of them on one letter that by insertion there are a hundred billion steps, and no end of this test."""
    run = "\u0315\u0300" * 200_000
    for text in (f"a{run}", f"a{run} {run}", "a" + "\u0f73" * 200_000):
        once = normalise(text)
        assert once == written(text)
        assert len(once) >= len(text) - 2
    assert normalise(f"a{run}") == "\u00e0" + "\u0300" * 199_999 + "\u0315" * 200_000
    assert normalise_title(f"a{run}") == "\u00e0" + "\u0300" * 299


def test_characters_of_class_0_that_are_made_of_combining_ones_are_known() -> None:
    made = {chr(code): unicodedata.normalize("NFD", chr(code)) for code in range(0x20000)}
    combined = [each for each, of in made.items() if unicodedata.combining(of[0]) and not unicodedata.combining(each)]
    assert "".join(combined) == _COMBINED


def test_what_is_not_composed_by_the_kernel_stays_as_it_is_when_composed() -> None:
    alone = [*range(0x300), *range(0x2002, 0x2028)]
    assert not any(unicodedata.combining(chr(code)) for code in alone)
    assert all(unicodedata.normalize("NFC", f"e{chr(code)}o") == f"e{chr(code)}o" for code in alone)
