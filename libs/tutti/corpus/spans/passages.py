"""Passages: the verbatim spans of a text, as bytes of it, and the documents that hold them.

Promises: a span is one of tokens, so it begins and ends where tokens of the text do; which passages there are depends
on the text and the datasets alone, which are searched as if they were one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tutti.corpus.spans.index import LEAST, Index, SpanMatch
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.native.arrays import np

PLACES = 64
"""Maximum number of a span's places that are searched for documents."""
BEFORE = ("", *" \t\"'`([{<*_-/.@#=:,\u201c\u2018\u00ab\u2014")
"""Characters that a token may begin with before the letters of a word; most often the space."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Bytes begin … end - 1 of a text are `tokens` tokens that stand `count` times in the datasets.

    `documents` are some that hold them, by id. A boundary may lie inside a character, since a token may end there.
    """

    begin: int
    end: int
    tokens: int
    count: int
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Passages:
    """In the order of the text; `tokens` of the whole text; `truncated`: shorter ones were left out."""

    found: tuple[Passage, ...]
    tokens: int
    truncated: bool


def passages(
    indexes: Sequence[Index],
    tokenizer: BytePairTokenizer,
    text: str,
    *,
    least: int = LEAST,
    limit: int = 100,
    documents: int = 3,
) -> Passages:
    """The maximal verbatim spans of at least `least` tokens; the longest `limit` of them, the earlier before the later.

    Each names at most `documents` documents, dataset by dataset in the order of what follows the span there, among its
    first 64 places. `tokenizer` is that of the datasets. Raises CorpusError for `least` < 1.
    """
    ids = tokenizer.encode(text)
    at = [0, *np.cumsum(tokenizer.byte_lengths[ids]).tolist()]
    every = _maximal(
        span
        for index in indexes
        for span in index.spans(ids.tolist(), least=least, examples=PLACES if documents else 0)
    )
    longest = sorted(every, key=lambda span: span.start - span.end)[:limit]
    found = (
        Passage(
            begin=at[span.start],
            end=at[span.end],
            tokens=span.end - span.start,
            count=span.count,
            documents=_holders([span])[:documents],
        )
        for span in sorted(longest, key=lambda span: span.start)
    )
    return Passages(tuple(found), len(ids), len(every) > limit)


def whole(indexes: Sequence[Index], tokenizer: BytePairTokenizer, text: str, *, documents: int = 3) -> Passages:
    """The text as one passage, wherever it stands from a word's first letter on; none where it stands nowhere.

    What stands before it may be in one token with its beginning, so it is looked for behind each of BEFORE.
    """
    matches, tokens, size = list[SpanMatch](), len(tokenizer.encode(text)), len(text.encode())
    for before in BEFORE:
        ids = tokenizer.encode(before + text)
        alone = before != "" and int(tokenizer.byte_lengths[ids[0]]) <= len(before.encode())
        if len(ids) and not alone:  # what stands alone before it is found with nothing before it
            for index in indexes:
                matches += index.spans(ids.tolist(), least=len(ids), examples=PLACES if documents else 0)
    if not matches:
        return Passages((), tokens, truncated=False)
    count = sum(each.count for each in matches)
    return Passages((Passage(0, size, tokens, count, _holders(matches)[:documents]),), tokens, truncated=False)


def _maximal(every: Iterable[SpanMatch]) -> list[SpanMatch]:
    """The matches of several datasets that no longer match contains, without duplicates."""

    def merged() -> Iterator[SpanMatch]:
        reached = 0
        ordered = sorted(every, key=lambda span: (span.start, -span.end))
        for (start, end), alike in groupby(ordered, key=lambda span: (span.start, span.end)):
            if end > reached:
                reached, same = end, list(alike)
                examples = tuple(place for span in same for place in span.examples)
                yield SpanMatch(start, end, sum(span.count for span in same), examples)

    return list(merged())


def _holders(matches: Iterable[SpanMatch]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place.doc_id for match in matches for place in match.examples))
