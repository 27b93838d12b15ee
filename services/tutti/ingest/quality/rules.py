"""Rules: which documents stay, decided by the counts of statistics.py alone.

A rule compares one count, or its share of another, with a threshold; 0 of 0 is 0. The defaults are those published,
where the sources disagree docs/quality.md says which is taken: Gopher (Rae et al. 2021, section A1.1 and table A1),
C4 (Raffel et al. 2020, section 2.2), FineWeb (Penedo et al. 2024, section 3.6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache

from tutti.native.arrays import np, npt, pa


class Keep(Enum):
    """On which side of the threshold a document stays."""

    AT_LEAST = ">="
    MORE_THAN = ">"
    AT_MOST = "<="
    LESS_THAN = "<"


_COMPARE = {
    Keep.AT_LEAST: "greater_equal",
    Keep.MORE_THAN: "greater",
    Keep.AT_MOST: "less_equal",
    Keep.LESS_THAN: "less",
}


class UnknownRule(Exception):
    """A threshold was given for a rule that is not there."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A document stays if `column`, or its share of `per`, is on the side of `threshold` that `keep` names."""

    name: str
    column: str
    per: str | None
    keep: Keep
    threshold: float

    def values(self, counts: pa.RecordBatch) -> npt.NDArray[np.float64]:
        """float64 [documents]: what is compared. Raises KeyError when a column is missing."""
        value = _column(counts, self.column)
        if self.per is None:
            return value
        whole = _column(counts, self.per)
        return np.divide(value, whole, out=np.zeros_like(value), where=whole != 0)

    def keeps(self, counts: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """bool [documents]: which stay."""
        kept: npt.NDArray[np.bool_] = getattr(np, _COMPARE[self.keep])(self.values(counts), self.threshold)
        return kept


GOPHER_QUALITY = (
    Rule("gopher_least_words", "words", None, Keep.AT_LEAST, 50),
    Rule("gopher_most_words", "words", None, Keep.AT_MOST, 100_000),
    Rule("gopher_least_word_length", "word_characters", "words", Keep.AT_LEAST, 3),
    Rule("gopher_most_word_length", "word_characters", "words", Keep.AT_MOST, 10),
    Rule("gopher_hashes", "hashes", "tokens", Keep.AT_MOST, 0.1),
    Rule("gopher_ellipses", "ellipses", "tokens", Keep.AT_MOST, 0.1),
    Rule("gopher_bullet_lines", "bullet_lines", "lines", Keep.AT_MOST, 0.9),
    Rule("gopher_ellipsis_lines", "ellipsis_lines", "lines", Keep.AT_MOST, 0.3),
    Rule("gopher_alphabetic_words", "alphabetic_words", "tokens", Keep.AT_LEAST, 0.8),
    Rule("gopher_stop_words", "stop_words", None, Keep.AT_LEAST, 2),
)

GOPHER_REPETITION = (
    Rule("gopher_duplicate_lines", "duplicate_lines", "lines", Keep.AT_MOST, 0.3),
    Rule("gopher_duplicate_paragraphs", "duplicate_paragraphs", "paragraphs", Keep.AT_MOST, 0.3),
    Rule("gopher_duplicate_line_characters", "duplicate_line_characters", "characters", Keep.AT_MOST, 0.2),
    Rule("gopher_duplicate_paragraph_characters", "duplicate_paragraph_characters", "characters", Keep.AT_MOST, 0.2),
    *(
        Rule(f"gopher_top_{n}_grams", f"top_{n}_gram_characters", "characters", Keep.AT_MOST, threshold)
        for n, threshold in ((2, 0.2), (3, 0.18), (4, 0.16))
    ),
    *(
        Rule(f"gopher_duplicate_{n}_grams", f"duplicate_{n}_gram_characters", "characters", Keep.AT_MOST, threshold)
        for n, threshold in ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))
    ),
)

C4 = (
    Rule("c4_least_sentences", "c4_sentences", None, Keep.AT_LEAST, 3),
    Rule("c4_lorem_ipsum", "lorem_ipsum_lines", None, Keep.AT_MOST, 0),
    Rule("c4_curly_brackets", "curly_bracket_lines", None, Keep.AT_MOST, 0),
)

FINEWEB = (
    Rule("fineweb_ended_lines", "ended_lines", "lines", Keep.MORE_THAN, 0.12),
    Rule("fineweb_short_lines", "short_lines", "lines", Keep.LESS_THAN, 0.67),
    Rule("fineweb_duplicate_line_characters", "duplicate_line_characters", "line_characters", Keep.LESS_THAN, 0.1),
    Rule("fineweb_newlines", "newlines", "tokens", Keep.AT_MOST, 0.3),
)

RULES = (*GOPHER_QUALITY, *GOPHER_REPETITION, *C4, *FINEWEB)


@cache
def decision_schema() -> pa.Schema:
    """Return the columns of a decision about a document."""
    return pa.schema(
        [pa.field("rule", pa.string()), pa.field("value", pa.float64()), pa.field("threshold", pa.float64())]
    )


def with_thresholds(rules: Sequence[Rule], thresholds: Mapping[str, float]) -> tuple[Rule, ...]:
    """The rules, some with another threshold. Raises UnknownRule."""
    known = {rule.name for rule in rules}
    if unknown := sorted(thresholds.keys() - known):
        allowed = f"one of {', '.join(sorted(known))}" if known else "none where no rules are asked for"
        raise UnknownRule(f"no rule {unknown[0]!r}; expected {allowed}")
    return tuple(replace(rule, threshold=thresholds.get(rule.name, rule.threshold)) for rule in rules)


def decide(counts: pa.RecordBatch, rules: Sequence[Rule]) -> pa.RecordBatch:
    """Return for each document the first rule that rejects it, value and threshold; nulls where it stays."""
    decided = np.full(counts.num_rows, -1, np.int64)
    values = np.zeros(counts.num_rows)
    for number, rule in enumerate(rules):
        rejected = (decided < 0) & ~rule.keeps(counts)
        decided[rejected] = number
        values[rejected] = rule.values(counts)[rejected]
    kept = decided < 0
    thresholds = np.array([rule.threshold for rule in rules] or [0.0])
    return pa.record_batch(
        [
            pa.array([None if number < 0 else rules[number].name for number in decided.tolist()], pa.string()),
            pa.array(values, mask=kept),
            pa.array(thresholds[decided], mask=kept),
        ],
        schema=decision_schema(),
    )


def _column(counts: pa.RecordBatch, name: str) -> npt.NDArray[np.float64]:
    return np.asarray(counts.column(name), np.float64)
