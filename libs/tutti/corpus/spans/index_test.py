"""Spans: what the index tells is what a slow scan of all documents finds."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.documents.documents import document_id
from tutti.corpus.spans.building import build
from tutti.corpus.spans.index import Index, Occurrence, SpanMatch
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard
from tutti.records.errors import CorpusError

EOS = 0
Documents = Sequence[Sequence[int]]


def name(number: int) -> str:
    return document_id(source=str(number), text="")


def shards(
    folder: Path, documents: Documents, *, context: int = 8, sequences: int = 1000, vocabulary: int = 300
) -> list[Path]:
    """The token shards of documents, each of so many sequences."""
    stream, starts = [EOS], []
    for document in documents:
        starts.append(len(stream))
        stream += [*document, EOS]
    starts[0], used = 0, len(stream)
    total = -(-(used - 1) // context)
    tokens, begins = np.array(stream + [EOS] * (total * context + 1 - used)), np.array(starts)
    paths = []
    for first in range(0, total, sequences):
        begin, end = first * context, min(first + sequences, total) * context + 1
        held = min(end, used) - begin
        low, high = np.searchsorted(begins, begin, side="right") - 1, np.searchsorted(begins, begin + held)
        run = TokenRun(
            tokens=tokens[begin:end], tokens_used=held, starts=np.maximum(begins[low:high] - begin, 0),
            doc_ids=[name(number) for number in range(low, high)], context=context, vocabulary=vocabulary, eos=EOS,
            first_sample=first,
        )  # fmt: skip
        paths.append(folder / f"{first}.tokens")
        paths[-1].write_bytes(encode_token_shard(run)[0])
    return paths


def built(folder: Path, documents: Documents, **how: int) -> Index:
    build(shards(folder, documents, **how), folder / "index")
    return Index.open(folder / "index")


def places(documents: Sequence[str], wanted: str) -> list[tuple[int, int]]:
    """Where a run stands, as (document, offset), in the order of what follows it, then of documents."""
    found = [
        (number, at)
        for number, document in enumerate(documents)
        for at in range(len(document) - len(wanted) + 1)
        if document.startswith(wanted, at)
    ]
    return sorted(found, key=lambda place: (documents[place[0]][place[1] + len(wanted) :], place))


def scanned(documents: Documents, query: Sequence[int], least: int) -> list[SpanMatch]:
    """The answer, by looking through every document for every run of the query; a token is a character here."""
    texts = ["".join(map(chr, document)) for document in documents]
    asked = "".join(chr(token) if token > 0 else "-" for token in query)
    held: list[SpanMatch] = []
    for start in range(len(asked)):
        end = start
        while end < len(asked) and any(asked[start : end + 1] in text for text in texts):
            end += 1
        if end - start >= least and not any(end <= other.end for other in held):
            where = places(texts, asked[start:end])
            examples = tuple(Occurrence(name(number), offset) for number, offset in where[:5])
            held.append(SpanMatch(start, end, len(where), examples))
    return held


texts = st.lists(st.integers(1, 3), max_size=14)


@given(
    documents=st.lists(texts, min_size=1, max_size=8), query=st.lists(st.integers(-1, 5), max_size=20),
    least=st.integers(1, 5), context=st.integers(1, 9), sequences=st.integers(1, 6),
    vocabulary=st.sampled_from([4, 300, 1 << 16, 1 << 20]),
)  # fmt: skip
@settings(max_examples=80)
def test_the_spans_are_those_of_a_slow_scan(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[int]], query: list[int], least: int, context: int,
    sequences: int, vocabulary: int,
) -> None:  # fmt: skip
    if not any(documents):
        documents = [*documents, [1]]
    folder = tmp_path_factory.mktemp("spans")
    index = built(folder, documents, context=context, sequences=sequences, vocabulary=vocabulary)
    index.verify()
    assert index.spans(query, least=least) == scanned(documents, query, least)


@given(seed=st.integers(0, 1 << 32), letters=st.integers(2, 4), copies=st.integers(0, 6))
@settings(max_examples=25)
def test_long_spans_are_those_of_a_slow_scan(
    tmp_path_factory: pytest.TempPathFactory, seed: int, letters: int, copies: int
) -> None:
    random = np.random.default_rng(seed)
    page = random.integers(1, letters, 100).tolist()
    documents = [random.integers(1, letters + 1, size).tolist() for size in random.integers(0, 150, 12)]
    documents += [[*page, *random.integers(1, letters, 5).tolist()] for _ in range(copies)] + [page]
    query = page[random.integers(50) :] + documents[0][:70] + documents[1][20:] + page
    index = built(tmp_path_factory.mktemp("spans"), documents, context=16, sequences=3)
    assert index.spans(query, least=12) == scanned(documents, query, 12)


def test_a_document_across_shards_is_one(tmp_path: Path) -> None:
    documents = [list(range(1, 60)), list(range(100, 290)), list(range(60, 100))]
    paths = shards(tmp_path, documents, context=8, sequences=2)
    info = build(paths[::-1], tmp_path / "index")
    assert len(paths) > 10
    assert (info.documents, info.suffixes, info.tokens) == (3, 289, 293)
    for number, document in enumerate(documents):
        found = Index.open(tmp_path / "index").spans(document)
        assert found == [SpanMatch(0, len(document), 1, (Occurrence(name(number), 0),))]


def test_what_a_document_ends_with_and_the_next_begins_with_is_no_span(tmp_path: Path) -> None:
    index = built(tmp_path, [[1, 2, 3, 4], [5, 6, 7, 8]])
    assert [(each.start, each.end) for each in index.spans([1, 2, 3, 4, 5, 6, 7, 8], least=3)] == [(0, 4), (4, 8)]
    assert index.spans([3, 4, EOS, 5, 6], least=3) == []


def test_nothing_is_found_for_an_empty_query_unknown_tokens_or_what_is_too_short(tmp_path: Path) -> None:
    index = built(tmp_path, [list(range(1, 30))])
    for query in ([], [-1] * 20, [300] * 20, [1 << 40] * 20, [EOS] * 20, [200] * 20, list(range(1, 8)), [29] * 20):
        assert index.spans(query) == []
    assert [(each.start, each.end) for each in index.spans([*range(1, 9), 300, *range(9, 17)])] == [(0, 8), (9, 17)]
    with pytest.raises(CorpusError, match="least is 0"):
        index.spans([1], least=0)


def test_one_token_a_hundred_thousand_times_is_indexed_and_found(tmp_path: Path) -> None:
    index = built(tmp_path, [[7] * 100_000, [7] * 50 + [8]], context=256, vocabulary=300)
    index.verify()
    (found,) = index.spans([7] * 1000)
    assert (found.start, found.end, found.count) == (0, 1000, 99_001)
    assert found.examples == tuple(Occurrence(name(0), 99_000 - k) for k in range(5))
    assert [(each.end, each.count) for each in index.spans([7] * 50 + [8])] == [(51, 1)]


def test_a_long_query_of_many_spans_is_answered_as_its_parts_are(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    index = built(tmp_path, [random.integers(1, 4, 60).tolist() for _ in range(10)])
    part = random.integers(1, 4, 199).tolist()
    spans, times = index.spans(part, least=3), 300
    assert len(spans) * times > 1 << 14
    found = index.spans([*part, 299] * times, least=3)
    moved = [
        replace(each, start=each.start + at, end=each.end + at) for at in range(0, 200 * times, 200) for each in spans
    ]
    assert found == moved


def test_a_line_of_every_page_is_counted_and_shown_by_what_follows(tmp_path: Path) -> None:
    line = list(range(1, 21))
    index = built(tmp_path, [[*line, 50 + k % 200, *line] for k in range(500)])
    (found,) = index.spans(line, examples=2)
    assert (found.count, found.examples) == (1000, (Occurrence(name(0), 21), Occurrence(name(1), 21)))
    (short,) = index.spans(line[5:15], examples=0)
    assert (short.count, short.examples) == (1000, ())
