"""Rules: a document at each threshold, just below it and just above it."""

import re
from itertools import count as numbers
from pathlib import Path

import pyarrow as pa
import pytest

from tutti.corpus.counts.statistics import COLUMNS, statistics
from tutti.ingest.quality.rules import RULES, Keep, Rule, UnknownRule, decide, with_thresholds


def filled(text: str, length: int) -> str:
    """The text, and behind it words that come once, up to `length` characters."""
    for number in numbers(100):
        room = length - len(text)
        if room < 10:
            return text + (" " + "z" * (room - 1) if room > 1 else "z" * room)
        text += f" q{number}"
    raise AssertionError


def words(lengths: dict[int, int]) -> str:
    """As many words of each length."""
    return " ".join("w" * length for length, times in lengths.items() for _ in range(times))


def gram(n: int, characters: int) -> str:
    """`n` tokens of `characters` in all, two times: a gram of which the second occurrence is a duplicate."""
    one = " ".join(["abcdefghij"[k] * (characters - n + 1 if k == 0 else 1) for k in range(n)])
    return f"{one} {one}"


def lines(of: str, times: int, other: str, others: int) -> str:
    """Lines, with its number wherever `%` stands in one."""
    every = [of] * times + [other] * others
    return "\n".join(line.replace("%", f"{number:02}") for number, line in enumerate(every))


# (below, at, above) the threshold of each rule.
EDGES: dict[str, tuple[str, ...]] = {
    "gopher_least_words": (words({3: 49}), words({3: 50}), words({3: 51})),
    "gopher_most_words": ("a " * 99_999, "a " * 100_000, "a " * 100_001),
    "gopher_least_word_length": (words({3: 9, 2: 1}), words({3: 10}), words({3: 9, 4: 1})),
    "gopher_most_word_length": (words({10: 9, 9: 1}), words({10: 10}), words({10: 9, 11: 1})),
    "gopher_hashes": ("w " * 10 + "#", "w " * 9 + "#", "w " * 8 + "#"),
    "gopher_ellipses": ("w " * 10 + "...", "w " * 9 + "\u2026", "w " * 8 + "..."),
    "gopher_bullet_lines": (lines("- a", 8, "b", 2), lines("\u2022 a", 9, "b", 1), lines("* a", 10, "b", 0)),
    "gopher_ellipsis_lines": (lines("a...", 2, "b", 8), lines("a\u2026", 3, "b", 7), lines("a...", 4, "b", 6)),
    "gopher_alphabetic_words": ("a " * 7 + "1 2 3", "a " * 8 + "1 .", "a " * 9 + "1"),
    "gopher_stop_words": ("The the cat", "The cat of", "The cat of that"),
    "gopher_duplicate_lines": (lines("a", 3, "%", 7), lines("a", 4, "%", 6), lines("a", 5, "%", 5)),
    "gopher_duplicate_paragraphs": tuple(
        lines("a", times, "%", 10 - times).replace("\n", "\n\n") for times in (3, 4, 5)
    ),
    "gopher_duplicate_line_characters": tuple("w" * 20 + "\n" + "w" * 20 + "\n" + "v" * rest for rest in (59, 58, 57)),
    "gopher_duplicate_paragraph_characters": tuple(
        "w" * 20 + "\n\n" + "w" * 20 + "\n\n" + "v" * rest for rest in (57, 56, 55)
    ),
    **{
        f"gopher_top_{n}_grams": tuple(filled(gram(n, characters), length) for length in (101, 100, 99))
        for n, characters in ((2, 9), (3, 7), (4, 5))
    },
    **{
        f"gopher_duplicate_{n}_grams": tuple(filled(gram(n, 20 - n), length) for length in (101, 100, 99))
        for n in (5, 6, 7, 8, 9, 10)
    },
    "c4_least_sentences": tuple("\n".join(["These are just five pieces."] * times) for times in (2, 3, 4)),
    "c4_lorem_ipsum": ("", "lorem", "Lorem Ipsum dolor"),
    "c4_curly_brackets": ("", "}", "f() {"),
    "fineweb_ended_lines": (lines("a.", 11, "b", 89), lines("a!", 12, "b", 88), lines('a"', 13, "b", 87)),
    "fineweb_short_lines": (
        lines("a" * 30, 66, "b" * 31, 34),
        lines("a" * 30, 67, "b" * 31, 33),
        lines("a" * 30, 68, "b" * 31, 32),
    ),
    "fineweb_duplicate_line_characters": tuple("w" * 10 + "\n" + "w" * 10 + "\n" + "v" * rest for rest in (81, 80, 79)),
    "fineweb_newlines": ("w " * 11 + "\n" * 3, "w " * 10 + "\n" * 3, "w " * 9 + "\n" * 3),
}

STAYS = {
    Keep.AT_LEAST: [False, True, True],
    Keep.MORE_THAN: [False, False, True],
    Keep.AT_MOST: [True, True, False],
    Keep.LESS_THAN: [True, False, False],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_decides_at_its_threshold(rule: Rule) -> None:
    counts = statistics(pa.array(EDGES[rule.name]))
    below, at, above = rule.values(counts).tolist()
    assert at == rule.threshold
    assert below < at < above or rule.threshold == below == 0 < above
    assert rule.keeps(counts).tolist() == STAYS[rule.keep]
    decided = decide(counts, [rule]).to_pylist()
    for value, stays, row in zip((below, at, above), STAYS[rule.keep], decided, strict=True):
        rejected = {"rule": rule.name, "value": value, "threshold": rule.threshold}
        assert row == (dict.fromkeys(rejected) if stays else rejected)


def test_every_column_is_known_to_the_rules() -> None:
    assert {rule.column for rule in RULES} | {rule.per for rule in RULES if rule.per} <= COLUMNS.keys()
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_an_empty_text_is_rejected_and_the_first_rule_names_itself() -> None:
    counts = statistics(pa.array([""]))
    assert decide(counts, RULES).to_pylist() == [{"rule": "gopher_least_words", "value": 0, "threshold": 50}]
    assert decide(counts, RULES[::-1]).to_pylist()[0]["rule"] == "fineweb_ended_lines"


def test_another_threshold_needs_the_counts_alone() -> None:
    counts = statistics(pa.array(["one two three", "one two three four"]))
    rules = with_thresholds(RULES[:1], {"gopher_least_words": 4})
    assert [row["rule"] for row in decide(counts, rules).to_pylist()] == ["gopher_least_words", None]
    assert decide(counts, ()).to_pylist() == [{"rule": None, "value": None, "threshold": None}] * 2


def test_a_threshold_for_no_rule_is_refused() -> None:
    with pytest.raises(UnknownRule, match="gopher_words"):
        with_thresholds(RULES, {"gopher_words": 4})


def test_the_documentation_lists_every_rule_with_its_threshold() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "quality.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| `(\w+)`(?: / `(\w+)`)? \| (\S+) (\S+) \|$", page, re.MULTILINE)
    assert [
        (name, column, per or None, Keep(keep), float(threshold)) for name, column, per, keep, threshold in listed
    ] == [(rule.name, rule.column, rule.per, rule.keep, rule.threshold) for rule in RULES]
