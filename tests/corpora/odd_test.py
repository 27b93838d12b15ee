"""Corpora as no plan has them: each becomes a dataset whose texts decode back exactly, or one error that says why."""

import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.corpora.stages import StageFailed, Stages, stages
from tests.scale import scale

EMOJI = (
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308 "
    "\U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd"
)
CJK = "吾輩は猫である。名前はまだ無い。天地玄黄宇宙洪荒。나는 고양이로소이다。\u3000𠮷野家"
RTL = "שָׁלוֹם עוֹלָם (abc 123)، مرحبا بالعالم ١٢٣ \u202bنص داخل نص\u202c \u2067ישר\u2069 \u200f."  # noqa: RUF001
ZERO_WIDTH = "a\u200bb\u200cc\u200dd\u2060e\u180ef\u034fg\u2063"
INVISIBLE = "\u200b\u200c\u200d\u2060\u2063"
NULLISH = "<|endoftext|> <|begin_of_text|> </s> [PAD]"


def numbered(text: str, count: int = 8) -> dict[str, str]:
    """Texts that differ, in their own characters: how often each is there."""
    return {f"{number}.txt": "\n".join([text] * (number + 1)) for number in range(count)}


def written(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Stages]:
    with stages(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    "files",
    [
        {"a.txt": "A", "b.txt": "B"},
        numbered(EMOJI),
        numbered(CJK),
        numbered(RTL),
        numbered(ZERO_WIDTH),
        numbered(INVISIBLE),
        numbered(NULLISH),
        {f"{number}.txt": chr(0x4E00 + number) for number in range(300)},
        {f"{number}.txt": chr(0x10FFFD - number) for number in range(30)},
        {"a.txt": "\n".join(map(chr, range(0x300, 0x370))), "b.txt": "z\u0300\u0301\u0316" + "\u0327" * 500},
        {"empty.txt": "", "lines.txt": "\n" * 500, "a.txt": "Words.", "b.txt": "Other words."},
    ],
    ids=["two-letters", "emoji", "cjk", "right-to-left", "zero-width", "invisible", "special-tokens", "one-character",
         "private", "combining", "some-empty"],
)  # fmt: skip
def test_texts_of_any_characters_decode_back_exactly(files: dict[str, str], made: Stages, tmp_path: Path) -> None:
    dataset = made.dataset(written(tmp_path / "in", files), near=0.0)
    assert dataset.texts(tmp_path) == {
        name: unicodedata.normalize("NFC", text) for name, text in files.items() if text.strip()
    }


SAME = "All of these are the same text. "


@pytest.mark.parametrize(
    ("files", "rules", "words"),
    [
        ({}, (), "input.path holds no files; expected HTML, Markdown"),
        (
            {f"{number}.txt": "" for number in range(3)},
            (),
            r"none of the 3 files .*\(3 empty\).*the file is empty",
        ),
        ({f"{number}.txt": "\n" * (9**number) for number in range(6)}, (), r"none of the 6 files .*\(6 empty\)"),
        ({"a.txt": "One document."}, (), "^one document stays; expected at least 2.*: add documents, or cut the text"),
        (
            {"a.txt": "One document.", "b.txt": " \n", "c.txt": "%PDF-1.7"},
            (),
            r"^one document stays \(left out: 1 empty, 1 pdf\); expected at least 2",
        ),
        ({f"{number}.txt": SAME for number in range(9)}, (), r"^one document stays \(left out: 8 duplicate\);"),
        (
            {f"{number}.txt": f"Few words, {number}." for number in range(5)},
            ("gopher_quality",),
            r"^all 5 documents were rejected \(5 by gopher_least_words\); change quality.rules",
        ),
    ],
    ids=["nothing", "empty-files", "newlines", "one-document", "one-of-three", "duplicates", "all-rejected"],
)
def test_a_corpus_that_is_no_dataset_fails_by_one_reason_that_says_what_to_do(
    files: dict[str, str], rules: tuple[str, ...], words: str, made: Stages, tmp_path: Path
) -> None:
    with pytest.raises(StageFailed) as failed:
        made.dataset(written(tmp_path / "in", files), *rules)
    (reason,) = failed.value.args
    assert re.search(words, reason), reason
    assert "\n" not in reason


def words(size: int) -> str:
    """About so many characters of lines of made-up words."""
    chance = random.Random(size)
    known = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=length)) for length in range(2, 12) for _ in range(500)
    ]
    chosen = chance.choices(known, k=size // 7)
    return "\n".join(" ".join(chosen[at : at + 40]) for at in range(0, len(chosen), 40))


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("text", [words, lambda size: "x" * size], ids=["words", "one-word"])
def test_a_document_of_any_length_decodes_back_exactly(
    text: Callable[[int], str], made: Stages, tmp_path: Path
) -> None:
    files = {"long.txt": text(scale(test=4, soak=100) * 10**6), "short.txt": "A short text."}
    folder = written(tmp_path / "in", files)
    dataset = made.dataset(folder, max_file_bytes=128 << 20, context=4096)
    assert dataset.texts(tmp_path) == files


def test_a_document_that_is_too_long_says_which_key_allows_it(made: Stages, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", {"long.txt": "A long text.", "longer.txt": "A longer text."})
    with pytest.raises(
        StageFailed, match=r"2 too_large.*12 bytes, at most 9 are read.*where input\.max_file_bytes says"
    ):
        made.dataset(folder, max_file_bytes=9)
