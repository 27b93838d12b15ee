"""Statistics: each count of small documents, and the same bits from the kernel and from Python."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.counts.lines import Verdict, verdict
from tutti.corpus.counts.statistics import COLUMNS, count, native, statistics
from tutti.corpus.texts import UnreadableTexts

KERNEL = pytest.mark.skipif(native().library is None, reason=native().why_not)

# Pieces that are near each other in real text, and what stands at the edge of a definition.
PIECES = st.sampled_from(
    [
        *(
            "the",
            "The",
            "of",
            "cat",
            "sat",
            "a",
            "b",
            "1",
            "2",
            " ",
            " ",
            " ",
            "\n",
            "\n",
            "\n\n",
            "\t",
            "\r",
            "\u00a0",
        ),
        *(
            ".",
            "..",
            "...",
            "\u2026",
            ",",
            "'",
            "\u2019",
            "_",
            "-",
            "*",
            "\u2022",
            "#",
            "!",
            "?",
            '"',
            "{",
            "[",
            "]",
            "/",
        ),
        *(
            "[1]",
            "[edit]",
            "[citation needed]",
            "javascript",
            "JavaScript",
            "cookie policy",
            "Terms of Use",
            "lorem ipsum",
        ),
        *("privacy policy", "use of cookies", "use cookies", "uses cookies", "x" * 9, "y" * 1001, "coo\u212aie policy"),
        *("\u6771", "\u4eac", "\u3042", "\u30a2", "\u3002", "\uff01", "\uac00", "\u0e01", "\u0939\u093f", "\u0964"),
        *("\u05d0", "\u0627", "\u061f", "\u202e", "\u200b", "\u200c", "\u200d", "\ufeff", "\u0301", "\ufe0f", "\u2028"),
        *(
            "\U0001f600",
            "\U0001f468\u200d\U0001f469",
            "\U0001f1e6",
            "\U00020000",
            "\U0010ffff",
            "\x00",
            "\x7f",
            "\u0378",
        ),
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=40))


def counts(text: str) -> dict[str, int]:
    """What Python counts, and the kernel as well."""
    counted = dict(zip(COLUMNS, count(text), strict=True))
    assert statistics(pa.array([text])).to_pylist() == [counted]
    return counted


@KERNEL
@settings(max_examples=120)
@given(texts=st.lists(TEXTS, max_size=4))
def test_kernel_and_python_give_the_same_bits(texts: list[str]) -> None:
    found = statistics(pa.array(texts, pa.string()))
    assert [list(row.values()) for row in found.to_pylist()] == [count(text) for text in texts]


@KERNEL
def test_many_tokens_lines_and_paragraphs_are_named_apart() -> None:
    words = " ".join(f"w{number} v{number % 700}" for number in range(1400))  # a table holds 512 before it grows
    lines = "\n".join(f"{number % 700}" for number in range(1000))
    paragraphs = "\n\n".join(f"{number % 700}" for number in range(1000))
    for text in (words, lines, paragraphs, "\n" * 3000, "ab " * 1500):
        assert list(statistics(pa.array([text])).to_pylist()[0].values()) == count(text)


@KERNEL
def test_a_slice_of_an_array_and_both_widths_of_offsets_are_read_right() -> None:
    texts = ["One two.", "", "The cat of the house\n\nsat.", "\U0001f600"]
    expected = [count(text) for text in texts[1:3]]
    for array in (pa.array(texts).slice(1, 2), pa.array(texts, pa.large_string()).slice(1, 2)):
        assert [list(row.values()) for row in statistics(array).to_pylist()] == expected
    assert statistics(pa.array([], pa.string())).num_rows == 0


def test_what_is_no_text_is_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\x02\0\0\0"), pa.py_buffer(b"a\xff")])
    for array, words in ((pa.array([1]), "int64"), (pa.array(["a", None]), "1 of 2 texts are null"), (broken, "UTF8")):
        with pytest.raises(UnreadableTexts, match=words):
            statistics(array)


def test_words_are_counted_with_their_characters() -> None:
    found = counts("The cat, of 42: #no... \u2026")
    assert (found["tokens"], found["words"], found["word_characters"]) == (10, 5, 3 + 3 + 2 + 2 + 2)
    assert (found["alphabetic_words"], found["stop_words"], found["hashes"], found["ellipses"]) == (4, 2, 1, 2)


def test_a_comma_joins_numbers_and_six_stops_are_two_ellipses() -> None:
    found = counts("1,000 a,1 1,a ...... ....")
    assert (found["tokens"], found["words"], found["ellipses"]) == (9, 5, 3)


def test_a_blank_line_is_no_line() -> None:
    found = counts("- one\n\n   \n* two...\nthree. \n")
    assert (found["lines"], found["newlines"], found["characters"]) == (3, 5, 28)
    assert (found["bullet_lines"], found["ellipsis_lines"], found["ended_lines"]) == (2, 1, 2)


@pytest.mark.parametrize(("length", "short"), [(30, 1), (31, 0)])
def test_a_short_line_has_at_most_30_characters(length: int, short: int) -> None:
    assert counts("\u00e9" * length)["short_lines"] == short


def test_duplicates_count_from_the_second_on() -> None:
    found = counts("same\nsame\nother\n\nsame\nsame\nother\n\nsame")
    assert (found["lines"], found["duplicate_lines"], found["duplicate_line_characters"]) == (7, 5, 21)
    assert (found["paragraphs"], found["duplicate_paragraphs"]) == (3, 1)
    assert found["duplicate_paragraph_characters"] == len("same\nsame\nother")


def test_the_most_frequent_gram_counts_with_its_spaces() -> None:
    assert counts("a bb c a bb d a bb")["top_2_gram_characters"] == 3 * len("a bb")
    assert counts("ccc d a b x a b ccc d")["top_2_gram_characters"] == 2 * len("ccc d"), "of several the first"
    assert counts("only once here")["top_3_gram_characters"] == len("only once here")
    assert counts("two words")["top_3_gram_characters"] == 0


def test_a_token_counts_in_one_duplicate_gram_at_most() -> None:
    assert counts("a b c d e f a b c d e f")["duplicate_5_gram_characters"] == 5
    assert counts("a " * 15)["duplicate_5_gram_characters"] == 10
    assert counts("a b c d e a b c d")["duplicate_5_gram_characters"] == 0


LINES = {
    "This line ends as it should.": Verdict.KEPT,
    'He said "this is a quote"': Verdict.KEPT,
    "This line has a citation.[12] [edit] [citation needed]": Verdict.KEPT,
    "This line has no end": Verdict.UNENDED,
    "This line is cut off...": Verdict.UNENDED,
    "It ends in a footnote[n].x": Verdict.UNENDED,
    "Four pieces are few.": Verdict.FEW_PIECES,
    "Five pieces are just enough.": Verdict.KEPT,
    "Please enable JavaScript to read this.": Verdict.JAVASCRIPT,
    **{
        f"Read here all about our {phrase} now.": Verdict.POLICY
        for phrase in ("use of Cookies", "Privacy Policy", "TERMS OF USE", "cookie policy")
    },
    "This site uses cookies, you know.": Verdict.POLICY,
    "We all use cookies, you know.": Verdict.POLICY,
    "We may reuse of a cookie terms.": Verdict.KEPT,
    "One two three four " + "x" * 1001 + ".": Verdict.LONG_PIECE,
    "One two three four " + "x" * 999 + ".": Verdict.KEPT,
}


@pytest.mark.parametrize("line", LINES)
def test_c4_says_this_of_a_line(line: str) -> None:
    assert verdict(line) is LINES[line]
    assert counts(line)[LINES[line].value] == 1


def test_c4_counts_sentences_in_the_lines_that_it_keeps() -> None:
    text = (
        'One is here. Two is here?! At 3.14 example.com it is three.\nNo end here. Here\n"A quote has no stop at all"\n'
    )
    assert counts(text)["c4_sentences"] == 4
