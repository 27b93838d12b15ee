"""Words, shingles and bands: what is the same, and the same bits from the kernel and from numpy."""

import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.texts import UnreadableTexts, buffers
from tutti.dedup import folding, minhash, shingles
from tutti.dedup.kernel import native
from tutti.records.errors import CorruptShard

KERNEL = pytest.mark.skipif(native().library is None, reason=native().why_not)
TOOL = Path(__file__).resolve().parents[3] / "tools" / "folding.py"

PIECES = st.sampled_from(
    [
        *(
            "a",
            "B",
            "the ",
            "Cat",
            "\u00e9",
            "e\u0301",
            "\u00df",
            "_",
            "'",
            "1",
            "\uff11",
            "\u00b2",
            " ",
            "\n",
            "\t",
            "\x00",
        ),
        *(
            "\u6771",
            "\u4eac",
            "\u3042",
            "\u304c",
            "\uff76",
            "\uac00",
            "\u0e01",
            "\u0e49",
            "\u0939\u093f",
            "\u0634\u064e",
        ),
        *(
            "\u200b",
            "\u200c",
            "\u200d",
            "\ufeff",
            "\ufe0f",
            "\u202e",
            "\U0001f600",
            "\U00020000",
            "\U0010ffff",
            "\u0378",
        ),
        *("seven or eight words, some of more than 8 letters: ", "internationalization ", "x" * 15, "y" * 70, "." * 61),
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=60).map("".join), st.text(max_size=60))


def words(text: str) -> list[int]:
    found: list[int] = shingles.words(np.frombuffer(text.encode(), np.uint8)).tolist()
    return found


@KERNEL
@given(texts=st.lists(TEXTS, max_size=4))
def test_words_have_the_same_names_from_the_kernel_and_from_numpy(texts: list[str]) -> None:
    library = native().library
    assert library is not None
    data, offsets = buffers(pa.array(texts, pa.large_string()))
    for ours, twin in zip(
        shingles.words_by_kernel(library, data, offsets), shingles.words_by_numpy(data, offsets), strict=True
    ):
        np.testing.assert_array_equal(ours, twin)


def peak() -> int:
    """Kilobytes of this process that were resident at once."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def require_equal_bits(texts: list[str]) -> None:
    library = native().library
    assert library is not None
    data, offsets = buffers(pa.array(texts, pa.string()))
    for module in (shingles, minhash):
        for ours, twin in zip(module.by_kernel(library, data, offsets), module.by_numpy(data, offsets), strict=True):
            np.testing.assert_array_equal(ours, twin)


@KERNEL
@settings(max_examples=200)
@given(texts=st.lists(TEXTS, max_size=5))
def test_kernel_and_numpy_give_the_same_bits(texts: list[str]) -> None:
    require_equal_bits(texts)


@KERNEL
@pytest.mark.parametrize("size", [1, 7, shingles.PIECE])
def test_pieces_and_blocks_cut_no_word(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shingles, "PIECE", size)
    long = "\u00e9t\u00e9 caf\u00e9\u6771\u4eac x\U0001f600y " * (400 if size > 1 else 20)
    require_equal_bits([long, "a" * 999 + " b", "\u6771" * 700, "", "one two three", "\n" * 500])


@KERNEL
@pytest.mark.parametrize("before", range(0, 70, 3))
@pytest.mark.parametrize("letter", ["\u00e9", "\u6771", "\u200d", "\u2014", "a"])
def test_a_word_of_any_length_stands_anywhere(letter: str, before: int) -> None:
    require_equal_bits([f"{'. ' * 30}{'b' * before}{letter}{'c' * after} d e" for after in (*range(20), 63, 64, 65)])


@KERNEL
def test_another_table_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    other = folding.folding().copy()
    other[ord("_")], other[ord("-")], other[ord("z")] = ord("_"), folding.LEFT_OUT, folding.ALONE | ord("z")
    monkeypatch.setattr(shingles, "folding", lambda: other)
    library = native().library
    assert library is not None
    data, offsets = buffers(pa.array(["one_two th-ree fozur five six seven eight nine ten"]))
    ours, _ = shingles.words_by_kernel(library, data, offsets)
    assert ours.tolist() == shingles.words_by_numpy(data, offsets)[0].tolist()
    assert len(ours) == 11


@KERNEL
def test_a_slice_of_an_array_is_read_right() -> None:
    texts = pa.array(["one two", "", "three four five six seven eight", "nine"])
    whole, part = minhash.bands(texts).to_pylist(), minhash.bands(texts.slice(1, 2)).to_pylist()
    assert part == whole[1:3]
    assert [row["shingles"] for row in whole] == [1, 0, 2, 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The CAT", "the cat"),
        ("caf\u00e9", "cafe\u0301"),
        ("\u00c9t\u00e9", "ete"),
        ("\uff34\uff35\uff34\uff34\uff29 \uff11", "tutti 1"),
        ("\uff76\uff85", "\u30ab\u30ca"),
        ("soft\u00adhyphen a\u200db", "softhyphen ab"),
        ("\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "\u03c3\u03b9\u03c3\u03c5\u03c6\u03bf\u03c3"),
        ("\u0634\u064e\u0645\u0633", "\u0634\u0645\u0633"),
        ("one,  two\n\u2014 \u201cthree\u201d", "one two three"),
        ("zero\u200bwidth", "zero width"),
        ("\u6771\u4eac", "\u6771 \u4eac"),
    ],
)
def test_these_are_the_same_words(one: str, other: str) -> None:
    assert words(one) == words(other) != []


@pytest.mark.parametrize(
    ("one", "other"), [("ab", "a b"), ("\u304b", "\u304c"), ("\u0915\u093f", "\u0915\u0940"), ("ab", "ba")]
)
def test_these_are_other_words(one: str, other: str) -> None:
    assert words(one) != words(other)


def test_every_word_has_its_place() -> None:
    found, bounds = shingles.shingles(pa.array(["a b c d e f", "b c d e f", "f e d c b", "a b c", "a b", "c"]))
    assert bounds.tolist() == [0, 2, 3, 4, 5, 6, 7]
    assert found[1] == found[2]
    assert len(set(found.tolist())) == 6


def test_what_has_no_words_has_no_shingles() -> None:
    found = minhash.bands(pa.array(["", "\n \t", "\U0001f600 \u2764\ufe0f", "--- !!! \u3002", "\u200b\u200d\u0301"]))
    assert found["shingles"].to_pylist() == [0] * 5


def test_what_is_no_text_is_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\x02\0\0\0"), pa.py_buffer(b"a\xff")])
    for measure in (minhash.bands, shingles.shingles):
        for array in (broken, pa.array([None], pa.string()), pa.array([1])):
            with pytest.raises(UnreadableTexts):
                measure(array)


@KERNEL
def test_a_hundred_megabytes_of_newlines_need_no_memory() -> None:
    texts = pa.array(["\n" * 100_000_000, "a b c d e f"])
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
    before = peak()
    assert minhash.bands(texts)["shingles"].to_pylist() == [0, 2]
    assert len(shingles.shingles(texts)[0]) == 2
    assert peak() - before < 20_000


def test_a_share_of_equal_rows_is_the_similarity() -> None:
    source = np.random.default_rng(5)
    pool = source.integers(0, 2**64, 3000, np.uint64)
    one, other = minhash.least(pool[:2000]), minhash.least(pool[500:2500])  # 1500 of 2500
    assert abs((one == other).mean() - 0.6) < 3 * (0.6 * 0.4 / minhash.PERMUTATIONS) ** 0.5


def test_a_damaged_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "folding.txt"
    copy.write_text(folding.SOURCE.read_text().replace("0041..005A 0061 w", "0041..005A 0062 w"))
    monkeypatch.setattr(folding, "SOURCE", copy)
    with pytest.raises(CorruptShard, match=r"folding\.txt: table is damaged"):
        folding.folding.__wrapped__()


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="the table is made by Python 3.11, of Unicode 14")
def test_the_frozen_table_is_what_its_tool_makes() -> None:
    assert subprocess.run([sys.executable, str(TOOL), "--check"], check=False).returncode == 0
