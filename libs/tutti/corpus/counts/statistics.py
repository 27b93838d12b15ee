"""Statistics: what a text is like, as counts; the rules need nothing else of it.

Promises: every column is a count of one text alone, exact, and the same from the kernel (statistics.c) and from Python.
A threshold can therefore be changed and applied anew without the text. Another meaning of a column, another table of
characters or another definition of a word is another STATISTICS_VERSION.
"""

from __future__ import annotations

import ctypes
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tutti.corpus.counts.characters import Flag, characters, has
from tutti.corpus.counts.lines import ELLIPSIS, SHORT_LINE, Verdict, ends_well, lower, stripped, verdict
from tutti.corpus.counts.words import tokens
from tutti.corpus.texts import buffers
from tutti.native.arrays import np, npt, pa
from tutti.native.native import Kernel, kernel

STATISTICS_VERSION = 1

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
TOP_GRAMS = (2, 3, 4)
DUPLICATE_GRAMS = (5, 6, 7, 8, 9, 10)

COLUMNS = {
    "characters": "code points",
    "line_characters": "code points that are not line feeds",
    "newlines": "line feeds",
    "tokens": "words and marks",
    "words": "words",
    "word_characters": "characters of all words",
    "alphabetic_words": "words with a letter or an ideograph",
    "stop_words": "how many of the eight stop words occur, in any case of ASCII",
    "hashes": "number signs",
    "ellipses": "three full stops in a row, or the character for them",
    "lines": "lines that are not blank",
    "bullet_lines": "lines that begin with a bullet (- * and the round ones)",
    "ellipsis_lines": "lines that end with an ellipsis",
    "ended_lines": "lines that end well: with the end of a sentence or a closing quote",
    "short_lines": "lines of at most 30 characters",
    "duplicate_lines": "lines equal to an earlier one",
    "duplicate_line_characters": "characters of those",
    "paragraphs": "runs of lines that are not blank",
    "duplicate_paragraphs": "paragraphs equal to an earlier one",
    "duplicate_paragraph_characters": "characters of those",
    **{
        f"top_{n}_gram_characters": f"length of the most frequent {n}-gram of tokens (of several the first), a space "
        "between tokens, times its occurrences"
        for n in TOP_GRAMS
    },
    **{
        f"duplicate_{n}_gram_characters": f"characters of the tokens in {n}-grams that occurred before, read from the "
        "left, each token in one of them at most"
        for n in DUPLICATE_GRAMS
    },
    "c4_long_piece_lines": "lines with a piece of over 1,000 characters",
    "c4_unended_lines": "of the others, lines that do not end well, or with an ellipsis; a citation behind is no end",
    "c4_few_piece_lines": "of the others, lines of under 5 pieces",
    "c4_javascript_lines": "of the others, lines that speak of javascript",
    "c4_policy_lines": "of the others, lines that speak of cookies, privacy policy or terms of use",
    "c4_lines": "of the others: the lines that C4 keeps",
    "c4_sentences": "runs of marks that end a sentence in those, at least one a line",
    "lorem_ipsum_lines": "lines with lorem ipsum",
    "curly_bracket_lines": "lines with an opening curly bracket",
}


@cache
def schema() -> pa.Schema:
    """Return the columns of the statistics of a document."""
    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in COLUMNS])


_SOURCE = Path(__file__).with_suffix(".c")


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def statistics(texts: pa.Array) -> pa.RecordBatch:
    """One row of `schema` for each text of a string array, in its order. Raises UnreadableTexts."""
    data, offsets = buffers(texts)
    library = native().library
    counts = _by_python(texts) if library is None else _by_kernel(library, data, offsets)
    return pa.record_batch([np.ascontiguousarray(column) for column in counts.T], schema=schema())


def count(text: str) -> list[int]:
    """The row of one text, in the order of COLUMNS: the definition that the kernel is held to."""
    row = dict.fromkeys(COLUMNS, 0)
    parts = list(tokens(text))
    words = [each for each in parts if each.is_word]
    row["characters"] = len(text)
    row["newlines"] = text.count("\n")
    row["line_characters"] = len(text) - row["newlines"]
    row["tokens"] = len(parts)
    row["words"] = len(words)
    row["word_characters"] = sum(len(word.text) for word in words)
    row["alphabetic_words"] = sum(word.is_alphabetic for word in words)
    row["stop_words"] = len({lower(word.text) for word in words} & set(STOP_WORDS))
    row["hashes"] = text.count("#")
    row["ellipses"] = sum(text.count(each) for each in ELLIPSIS)
    _count_lines(text, row)
    _count_paragraphs(text, row)
    _count_repetition([each.text for each in parts], row)
    return list(row.values())


def _count_lines(text: str, row: dict[str, int]) -> None:
    seen: set[str] = set()
    for line in text.split("\n"):
        if not (bare := stripped(line)):
            continue
        row["lines"] += 1
        row["bullet_lines"] += has(bare[0], Flag.BULLET)
        row["ellipsis_lines"] += bare.endswith(ELLIPSIS)
        row["ended_lines"] += ends_well(bare)
        row["short_lines"] += len(line) <= SHORT_LINE
        if line in seen:
            row["duplicate_lines"] += 1
            row["duplicate_line_characters"] += len(line)
        seen.add(line)
        row["lorem_ipsum_lines"] += "lorem ipsum" in lower(line)
        row["curly_bracket_lines"] += "{" in line
        found = verdict(line)
        row[found.value] += 1
        if found is Verdict.KEPT:
            row["c4_sentences"] += max(1, _sentences(line))


def _sentences(line: str) -> int:
    """Runs of terminal marks; a full stop inside a word is none."""
    found, at, behind = 0, 0, False
    for token in tokens(line):
        begin = line.index(token.text, at)
        ends = not token.is_word and has(token.text[0], Flag.TERMINAL)
        found += ends and not (behind and begin == at)
        at, behind = begin + len(token.text), ends
    return found


def _count_paragraphs(text: str, row: dict[str, int]) -> None:
    seen: set[str] = set()
    for paragraph in _paragraphs(text):
        row["paragraphs"] += 1
        if paragraph in seen:
            row["duplicate_paragraphs"] += 1
            row["duplicate_paragraph_characters"] += len(paragraph)
        seen.add(paragraph)


def _paragraphs(text: str) -> Iterator[str]:
    held: list[str] = []
    for line in [*text.split("\n"), ""]:
        if stripped(line):
            held.append(line)
        elif held:
            yield "\n".join(held)
            held = []


def _count_repetition(words: Sequence[str], row: dict[str, int]) -> None:
    for n in TOP_GRAMS:
        grams = Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))
        if grams:
            gram, times = max(grams.items(), key=lambda each: each[1])  # the first of several, as they were met
            row[f"top_{n}_gram_characters"] = len(" ".join(gram)) * times
    for n in DUPLICATE_GRAMS:
        seen: set[tuple[str, ...]] = set()
        at = 0
        while at + n <= len(words):
            gram = tuple(words[at : at + n])
            if gram in seen:
                row[f"duplicate_{n}_gram_characters"] += sum(map(len, gram))
                at += n
            else:
                seen.add(gram)
                at += 1


def _by_python(texts: pa.Array) -> npt.NDArray[np.int64]:
    return np.array([count(text) for text in texts.to_pylist()], np.int64).reshape(len(texts), len(COLUMNS))


def _by_kernel(
    library: ctypes.CDLL, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    counts = np.empty((len(offsets) - 1, len(COLUMNS)), np.int64)
    failed = library.statistics(
        data.ctypes.data_as(ctypes.c_void_p),
        offsets.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(len(counts)),
        characters(),
        ctypes.c_uint64(secrets.randbits(64)),
        counts.ctypes.data_as(ctypes.c_void_p),
    )
    if failed:
        raise MemoryError(f"{len(data)} bytes of text in {len(counts)} documents; give smaller batches")
    return counts
