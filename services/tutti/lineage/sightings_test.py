"""Sightings in both directions equal a count by hand."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.corpus.tokens.tokenshard import TokenRun, TokenShard, TokenShardInfo, encode_token_shard
from tutti.lineage.sightings import Shelf, Sighting, of_document, of_step, read_by

VERSION = "blake3:" + "0" * 64
CONTEXT, STEPS = 8, 9


def shards(names: Sequence[str], lengths: Sequence[int]) -> Iterator[tuple[bytes, TokenShardInfo]]:
    """Two shards of documents with these ids and so many tokens each."""
    total = sum(lengths)
    sequences = -(-(total - 1) // CONTEXT)
    half = sequences // 2
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    for first, last in ((0, half), (half, sequences)):
        begin, end = first * CONTEXT, last * CONTEXT + 1
        used = min(end, total) - begin
        inside = [k for k in range(len(lengths)) if starts[k] < begin + used and starts[k] + lengths[k] > begin]
        run = TokenRun(
            tokens=np.zeros(end - begin, np.uint32),
            tokens_used=used,
            starts=np.maximum(starts[inside] - begin, 0),
            doc_ids=tuple(names[k] for k in inside),
            context=CONTEXT,
            vocabulary=300,
            eos=299,
            first_sample=first,
        )
        yield encode_token_shard(run)


def shelf(folder: Path, lengths: list[int]) -> Shelf:
    opened, names = [], [f"{index:02x}" * 32 for index in range(len(lengths))]
    for number, (data, _) in enumerate(shards(names, lengths)):
        path = folder / f"{number}.bin"
        path.write_bytes(data)
        opened.append(TokenShard(path))
    return Shelf(VERSION, tuple(opened))


@pytest.fixture
def opened(tmp_path: Path) -> Shelf:
    return shelf(tmp_path, [3, 20, 1, 8, 31, 2, 16])


@pytest.fixture
def ledger(opened: Shelf) -> Ledger:
    share = DatasetShare(VERSION, sequences=opened.sequences, weight=1, start=0)
    first = Span(from_step=0, datasets=(share,), seed=3, leaves=2, rows_per_leaf=2)
    then = DatasetShare(VERSION, sequences=opened.sequences, weight=1, start=first.starts_at(5)[0])
    second = Span(from_step=5, datasets=(then,), seed=4, leaves=2, rows_per_leaf=2)
    return Ledger((first, second)).skip(2, cause="not finite")


def by_hand(opened: Shelf, ledger: Ledger, until: int) -> set[Sighting]:
    found = set()
    for step in range(until):
        span = ledger.span_at(step)
        for leaf in range(span.leaves):
            for row, sample in enumerate(span.samples(step, leaf).samples):
                for document in opened.documents_of(int(sample)):
                    skipped = step == 2
                    found.add(Sighting(step + 1, leaf, row, int(sample), document, VERSION, skipped))
    return found


def test_the_steps_of_a_document_equal_a_count_by_hand(opened: Shelf, ledger: Ledger) -> None:
    expected = by_hand(opened, ledger, STEPS)
    assert {each.document for each in expected} == opened.documents()
    for document in opened.documents():
        seen = set(of_document(opened, ledger, document, until_step=STEPS))
        assert seen == {each for each in expected if each.document == document}


def test_the_documents_of_a_step_are_those_that_name_the_step(opened: Shelf, ledger: Ledger) -> None:
    expected = by_hand(opened, ledger, STEPS)
    for step in range(1, STEPS + 1):
        assert set(of_step(opened, ledger, step)) == {each for each in expected if each.step == step}


def test_a_checkpoint_read_the_documents_of_its_steps_and_no_others(opened: Shelf, ledger: Ledger) -> None:
    for until in (1, 2, STEPS):
        expected = {each.document for each in by_hand(opened, ledger, until)}
        assert read_by(opened, ledger, until_step=until) == expected
