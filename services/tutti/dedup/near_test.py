"""Near-duplicates: what an exact join of all pairs finds, whatever the files, order, workers and memory."""

import random
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import combinations
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tutti.dedup import verification
from tutti.dedup.names import Names
from tutti.dedup.near import near_duplicates
from tutti.dedup.rows import RUN_ROWS
from tutti.dedup.shards import Reader, reader
from tutti.native.native import Kernel

Rows = dict[str, tuple[str, float]]
"""The first of each document's cluster, and the similarity to it, 0 if it is alone or below the threshold."""
WORDS = [f"w{number}" for number in range(5000)]


def of(documents: dict[str, str], batch: int = 7) -> Reader:
    """Documents in the order of the dictionary."""
    table = pa.table({"doc_id": list(documents), "text": pa.array(documents.values(), pa.large_string())})
    return lambda columns: table.select(list(columns)).to_batches(batch)


def found(read: Reader, folder: Path, *, workers: int = 1, run_rows: int = RUN_ROWS) -> Rows:
    folder.mkdir()
    names = Names(batch["doc_id"] for batch in read(["doc_id"]))
    near = near_duplicates(read, names, folder, workers=workers, run_rows=run_rows)
    ids, clusters = (names.ids(each).to_pylist() for each in (np.arange(len(names)), near.roots))
    return dict(zip(ids, zip(clusters, near.similarity.tolist(), strict=True), strict=True))


def shingled(text: str) -> set[tuple[str, ...]]:
    """Five words in a row, for text of lower-case words and spaces: the definition, and none of our code."""
    words = text.split()
    return {tuple(words[at : at + 5]) for at in range(max(1, len(words) - 4))} if words else set()


def joined(documents: dict[str, str]) -> dict[tuple[str, str], float]:
    """The similarity of all pairs that share a shingle, exactly."""
    sets = {name: shingled(text) for name, text in documents.items()}
    holders: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(sets):
        for shingle in sets[name]:
            holders.setdefault(shingle, []).append(name)
    alike = {pair for names in holders.values() for pair in combinations(names, 2)}
    return {(a, b): len(sets[a] & sets[b]) / len(sets[a] | sets[b]) for a, b in alike}


def clusters(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The smallest name of each component, by spreading names along links until nothing changes."""
    links = list(pairs)
    least = {name: name for pair in links for name in pair}
    changed = True
    while changed:
        changed = False
        for a, b in links:
            low = min(least[a], least[b])
            if least[a] != low or least[b] != low:
                least[a] = least[b] = low
                changed = True
    return least


def planted(count: int, seed: int = 1) -> dict[str, str]:
    """Texts of which a third are changed copies of others, with similarities around the threshold."""
    source = random.Random(seed)
    texts: list[str] = []
    while len(texts) < count:
        words = source.choices(WORDS, k=source.randrange(30, 120))
        texts.append(" ".join(words))
        for _ in range(source.choice([0, 0, 0, 0, 0, 0, 1, 1, 2, 5])):
            for _ in range(source.randrange(4)):
                words[source.randrange(len(words))] = source.choice(WORDS)
            texts.append(" ".join(words))
    return {f"{source.getrandbits(64):016x}": text for text in texts[:count]}


def test_what_an_exact_join_finds_is_found_and_nothing_else(tmp_path: Path) -> None:
    documents = planted(2400)
    similarities = joined(documents)
    alike = {pair for pair, similarity in similarities.items() if similarity >= 0.8}
    rows = found(of(documents), tmp_path / "f")
    met = sum(rows[a][0] == rows[b][0] for a, b in alike)
    assert len(alike) > 600
    assert met >= 0.98 * len(alike)
    expected = clusters(alike)
    assert all(expected[name] == expected[cluster] for name, (cluster, _) in rows.items() if cluster != name)
    told = {name: jaccard for name, (cluster, jaccard) in rows.items() if cluster != name}
    exact = {name: similarities.get((rows[name][0], name), 0.0) for name in told}
    assert told == {name: similarity if similarity >= 0.8 else 0.0 for name, similarity in exact.items()}
    assert 0.0 in told.values(), "some are in a cluster through others alone"
    assert sum(rows[name][0] == expected[name] for name in expected) >= 0.97 * len(expected)


def test_files_order_workers_and_memory_have_no_say(tmp_path: Path) -> None:
    documents = planted(300) | {f"page {name}": text for name, text in list(topics.items())[:10]}
    expected = found(of(documents), tmp_path / "expected")
    assert sum(cluster != name for name, (cluster, _) in expected.items()) > 50
    names = list(documents)
    for count, workers, run_rows in ((1, 2, 1 << 20), (2, 1, 97), (8, 4, 1000)):
        random.Random(count).shuffle(names)
        shards = [tmp_path / f"{count}-{shard}.parquet" for shard in range(count)]
        for place, shard in enumerate(shards):
            part = names[place::count]
            pq.write_table(pa.table({"text": [documents[name] for name in part], "doc_id": part}), shard)  # type: ignore[no-untyped-call]
        assert found(reader(shards), tmp_path / f"{count}", workers=workers, run_rows=run_rows) == expected


def test_python_finds_the_same_as_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = planted(150)
    with_kernel = found(of(documents), tmp_path / "kernel")
    without = Kernel("minhash", None, "none in this test")
    for module in ("shingles", "minhash", "verification"):
        monkeypatch.setattr(f"tutti.dedup.{module}.native", lambda: without)
    assert found(of(documents), tmp_path / "python") == with_kernel


def test_sets_are_read_again_when_they_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = planted(150)
    expected = found(of(documents), tmp_path / "once")
    monkeypatch.setattr(verification, "GROUP", 100)
    assert found(of(documents), tmp_path / "often") == expected


def test_a_chain_of_similar_documents_is_one_cluster(tmp_path: Path) -> None:
    words = WORDS[:200]
    documents = {f"{step:02}": " ".join(words[8 * step : 8 * step + 100]) for step in range(12)}
    assert joined(documents)["00", "02"] < 0.8 < joined(documents)["00", "01"]
    assert {cluster for cluster, _ in found(of(documents), tmp_path / "f").values()} == {"00"}


@pytest.mark.parametrize(
    ("one", "other", "similarity", "above"),
    [(WORDS[:13], WORDS[1:14], 0.8, 0.81), (WORDS[:59], WORDS[:104], 0.55, 0.551)],  # .55 x 100 is more than 55
)
def test_exactly_the_threshold_is_similar(
    tmp_path: Path, one: Sequence[str], other: Sequence[str], similarity: float, above: float
) -> None:
    documents = {"a": " ".join(one), "b": " ".join(other)}
    assert joined(documents) == {("a", "b"): similarity}
    with closing(verification.SetFile(tmp_path / "sets", 2)) as store:
        store.add(np.arange(2), *verification.sets(pa.array(documents.values())))
        for threshold, expected in ((similarity, [similarity]), (above, [])):
            ((_, _, found),) = verification.verified(store, np.array([0]), np.array([1]), threshold=threshold)
            assert found.tolist() == expected


def test_more_alike_documents_than_a_window_holds_are_one_cluster(tmp_path: Path) -> None:
    text = " ".join(WORDS[:50])
    rows = found(of({f"{number:04}": text for number in range(500)}), tmp_path / "f", run_rows=20_000)
    assert rows.pop("0000") == ("0000", 0.0)
    assert set(rows.values()) == {("0000", 1.0)}


@pytest.mark.parametrize("texts", [[], [""], ["\n" * 1000, "\U0001f600", ""], ["one", "two"], ["\u200b \u0301", " "]])
def test_texts_without_common_words_are_alone(tmp_path: Path, texts: Sequence[str]) -> None:
    documents = {f"{place}": text for place, text in enumerate(texts)}
    assert found(of(documents), tmp_path / "f") == {name: (name, 0) for name in documents}


def test_a_document_that_comes_twice_is_one(tmp_path: Path) -> None:
    table = pa.table({"doc_id": ["a", "b", "a"], "text": ["one two", "three", "one two"]})
    rows = found(lambda columns: table.select(list(columns)).to_batches(1), tmp_path / "f")
    assert rows == {"a": ("a", 0), "b": ("b", 0)}


@pytest.mark.parametrize("threshold", [0, -1, 1.01])
def test_a_threshold_outside_its_range_is_refused(tmp_path: Path, threshold: float) -> None:
    with pytest.raises(ValueError, match="expected above 0 and at most 1"):
        near_duplicates(of({}), Names([]), tmp_path, threshold=threshold)


def test_an_id_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="NUL character"):
        found(of({"a\0": "one"}), tmp_path / "f")
