"""Normalisation: the same text from the kernel and from Python, whatever stands in it."""

import random
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.ingest.normalisation import native, normalise, written

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
@settings(deadline=None)
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


def test_what_is_not_composed_by_the_kernel_stays_as_it_is_when_composed() -> None:
    alone = [*range(0x300), *range(0x2002, 0x2028)]
    assert not any(unicodedata.combining(chr(code)) for code in alone)
    assert all(unicodedata.normalize("NFC", f"e{chr(code)}o") == f"e{chr(code)}o" for code in alone)
