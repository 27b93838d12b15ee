"""Features of texts: what they are, the kernel beside its twin, and that they never change."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.quality import features
from tutti.corpus.quality.features import having, names, of_pair, of_stem, of_word, shouts, sums, words
from tutti.corpus.texts import UnreadableTexts

HARD = [
    *("", " ", "\u0301a", "ÉCOLE Ÿ ŁÓDŹ ΠΡΟΣΟΧΗ ЁЖ", "図書館は x"),
    *("don't 1,234.5 snake_case", "AB ABC. ABCd ABC1", "😀!?", "a\x00b"),
]
TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=60) | st.sampled_from(HARD), max_size=6)
WEIGHTS = np.random.default_rng(3).integers(-32768, 32767, (1 << 8, 3), np.int16)


def test_words_are_small_letters_and_digits_are_alike() -> None:
    assert words("Ärger in ŁÓDŹ: 12,345 Mal, don't") == ["ärger", "in", "łódź", "00", "000", "mal", "don", "t"]
    assert words("図書 abc") == ["図", "書", "abc"]


def test_a_text_has_its_words_pairs_stems_marks_and_shouting() -> None:
    found = set(names("Click here, NOW: clicking").tolist())
    assert {of_word("click"), of_pair("click", "here"), of_pair("here", "now"), of_stem("clicker")} <= found
    assert of_stem("heren") not in found
    assert len(found) == 4 + 3 + 1 + 2 + 1
    assert shouts("read NOW")
    assert not shouts("read Now AB X1Y")


def test_names_of_features_are_frozen() -> None:
    assert of_word("click") == 10051852356746430292
    assert of_stem("clicking") == 2382963334967402455
    assert of_pair("click", "here") == 6706415835342096594


@given(TEXTS)
@settings(max_examples=60)
def test_the_kernel_sums_what_python_sums(texts: list[str]) -> None:
    if features.native().library is None:
        pytest.skip(features.native().why_not)
    array = pa.array(texts, pa.large_string())
    totals, counts = sums(array, WEIGHTS)
    by_python = features._by_python(array, WEIGHTS)
    assert np.array_equal(totals, by_python[0])
    assert np.array_equal(counts, by_python[1])


@given(TEXTS)
@settings(max_examples=40)
def test_it_is_told_which_of_some_features_each_text_has(texts: list[str]) -> None:
    wanted = np.unique(np.array([of_word("x"), of_pair("don", "t"), *names("図 😀").tolist()], np.uint64))
    expected = [[name in names(text).tolist() for name in wanted.tolist()] for text in texts]
    assert having(pa.array(texts, pa.string()), wanted).tolist() == expected


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(UnreadableTexts):
        sums(pa.array(["a", None]), WEIGHTS)
    with pytest.raises(UnreadableTexts):
        having(pa.array([1]), np.array([1], np.uint64))
