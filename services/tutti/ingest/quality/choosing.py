"""Choosing: which documents stay, by rules over what was measured of them.

Promises: a function of measures, rules and languages; of a document that goes the first rule that rejects it is kept,
with what it saw and its threshold. What is retracted goes where no rule rejects it. No text is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.corpus.documents import decisions
from tutti.corpus.rows import batches
from tutti.ingest.quality.languages import KNOWN, among
from tutti.ingest.quality.lexicon import HARM_LEXICON
from tutti.ingest.quality.pii import NO_PII
from tutti.ingest.quality.rules import (
    C4,
    FINEWEB,
    GOPHER_QUALITY,
    GOPHER_REPETITION,
    Rule,
    UnknownRule,
    decide,
    with_thresholds,
)
from tutti.native.arrays import np, npt, pa, pc

LOGIC_VERSION = "filter-1"
RULE_SETS: Mapping[str, Sequence[Rule]] = {
    "gopher_quality": GOPHER_QUALITY,
    "gopher_repetition": GOPHER_REPETITION,
    "c4": C4,
    "fineweb": FINEWEB,
    "no_pii": NO_PII,
    "harm_lexicon": HARM_LEXICON,
}
_ROWS = 1 << 14


class UnknownRuleSet(Exception):
    """A set of rules was named that is not there."""


class UnknownLanguage(Exception):
    """A language was named that no text is ever told to be in."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`rules` in the order in which they are asked; `languages` that stay, all when there are none.

    `retracted`: ids of documents that go whatever the rules say. They are asked last, so that the decisions about a
    document that goes anyhow stay the same, and all that follows from them.
    """

    rules: tuple[Rule, ...]
    languages: frozenset[str]
    retracted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FilterResult:
    """`path` is the file of decisions (tutti.corpus.documents.decisions); `rules`: how many each rejected, by name."""

    path: Path
    documents: int
    rejected: int
    rules: tuple[tuple[str, int], ...]


def choice(
    sets: Collection[str], thresholds: Mapping[str, float], languages: Iterable[str], learnt: Sequence[Rule] = ()
) -> Choice:
    """The rules of these sets, then those of classifiers (`learnt`), some with another threshold.

    Raises UnknownRuleSet, UnknownRule, UnknownLanguage.
    """
    if unknown := sorted(set(sets) - RULE_SETS.keys()):
        raise UnknownRuleSet(f"sets of rules such as {', '.join(RULE_SETS)}; not {', '.join(map(repr, unknown))}")
    languages = frozenset(languages)
    if strangers := sorted(languages - KNOWN):
        raise UnknownLanguage(
            f"ISO 639 codes that texts are told by, such as en; not {', '.join(map(repr, strangers))}"
        )
    rules = [rule for name, rules in RULE_SETS.items() if name in sets for rule in rules]
    for name, others in RULE_SETS.items():
        if name not in sets and (meant := sorted(thresholds.keys() & {rule.name for rule in others})):
            raise UnknownRule(f"{name} among the rules, the set that has {meant[0]!r}")
    return Choice(with_thresholds([*rules, *learnt], thresholds), languages)


def choose(measures: Sequence[Path], wanted: Choice, target: Path) -> FilterResult:
    """Decide on every document of these files of measures, and write who goes to `target`."""
    documents, parts = 0, [decisions.schema().empty_table()]
    for path in measures:
        for batch in batches(path, rows=_ROWS):
            documents += batch.num_rows
            parts.append(rejected(batch, wanted))
    rows = pa.concat_tables(parts).sort_by("doc_id").combine_chunks()
    decisions.write(rows.to_batches(_ROWS), target)
    rules = sorted(Counter(rows["rule"].to_pylist()).items())
    return FilterResult(target, documents - rows.num_rows, rows.num_rows, tuple(rules))


def rejected(measures: pa.RecordBatch, wanted: Choice) -> pa.Table:
    """Rows of decisions.schema() for those of the documents that go. The language is looked at before any rule."""
    spoken = among(measures, wanted.languages) if wanted.languages else np.ones(measures.num_rows, np.bool_)
    found = decide(measures, wanted.rules)
    rule = _where(spoken, found["rule"], decisions.LANGUAGE_RULE)
    if wanted.retracted:
        gone = [doc_id in wanted.retracted for doc_id in measures["doc_id"].to_pylist()]
        rule = pc.coalesce(rule, _where(np.invert(gone), pa.nulls(len(gone), rule.type), decisions.RETRACTED_RULE))  # type: ignore[attr-defined]
    columns = {
        "doc_id": measures["doc_id"],
        "rule": rule,
        "value": _where(spoken, found["value"], None),
        "threshold": _where(spoken, found["threshold"], None),
        "language": measures["language"],
    }
    rows = pa.table(columns)
    return rows.filter(rows["rule"].is_valid()).cast(decisions.schema())


def _where(chosen: npt.NDArray[np.bool_], values: pa.Array, other: str | None) -> pa.Array:
    return pc.if_else(pa.array(chosen), values, pa.scalar(other, values.type))  # type: ignore[attr-defined]
