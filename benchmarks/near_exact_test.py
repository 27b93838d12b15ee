"""The exact join finds what comparing every pair finds; near-duplicates of a small corpus, beside it."""

from itertools import combinations
from pathlib import Path
from pydoc_data.topics import topics

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.near_corpus import families, write
from benchmarks.near_duplicates import quality, words
from benchmarks.near_exact import join
from tutti.dedup.clusters import find
from tutti.dedup.shards import Texts

SIZE = 3_000_000
WORDS = [f"w{number}" for number in range(60)]
LONG = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 5)).map(
    lambda cut: " ".join(WORDS[cut[0] : 60 - cut[1]] + ["x"] * cut[2])
)
SHORT = st.lists(st.sampled_from("abc"), max_size=12).map(" ".join)


def runs(text: str) -> set[tuple[str, ...]]:
    found = text.split(" ")
    return {tuple(found[at : at + 5]) for at in range(len(found) - 4)}


@given(texts=st.lists(LONG | SHORT, min_size=2, max_size=12))
@settings(max_examples=150, deadline=None)
def test_the_join_finds_every_pair_that_is_similar_and_no_other(texts: list[str]) -> None:
    sets = {f"{number:03}": runs(text) for number, text in enumerate(texts)}
    expected = [
        (one, other)
        for one, other in combinations(sets, 2)
        if sets[one] and 5 * len(sets[one] & sets[other]) >= 4 * len(sets[one] | sets[other])
    ]
    assert join(list(sets), texts)[0] == expected


def test_of_similar_pairs_and_of_dropped_documents_few_are_wrong(tmp_path: Path) -> None:
    pages = ["\n".join(" ".join(words(line)) for line in text.split("\n")) for text in topics.values()]
    shards = write(families(pages, SIZE), tmp_path)
    rows = [row for shard in shards for row in pq.read_table(shard).to_pylist()]  # type: ignore[no-untyped-call]
    similar, compared = join([row["doc_id"] for row in rows], [row["text"] for row in rows])
    (tmp_path / "work").mkdir()
    found = find(Texts(tuple(shards)), 0.8, tmp_path / "work")
    table = pq.read_table(found.path).to_pylist()  # type: ignore[no-untyped-call]
    recall, precision = quality(similar, {row["doc_id"]: row["kept"] for row in table})
    assert compared >= len(similar) > 200
    assert min(recall, precision) >= 0.98
