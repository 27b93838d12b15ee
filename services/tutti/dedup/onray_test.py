"""Duplicates by the plan, in Daft: the same file as without it, for any cut. On Ray: tests/corpus/digests_test.py."""

import random
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pyarrow as pa
import pytest

from tutti.backbone.connect import open_blobs
from tutti.chassis.cluster import ClusterUnreachable
from tutti.corpus.documents import Document
from tutti.corpus.documentshard import DocumentShardInfo, encode_document_shard
from tutti.corpus.native import Kernel
from tutti.corpus.stages import DedupBody, DocumentShardEntry
from tutti.dedup import clusters, onray, steps
from tutti.dedup.clusters import Found
from tutti.dedup.clusters_test import document
from tutti.dedup.components import Components
from tutti.dedup.engine import Engine, join
from tutti.dedup.exact import ConflictingDocument
from tutti.dedup.near_test import planted
from tutti.dedup.reading import Reading, Unreadable
from tutti.dedup.shards import Texts

NEAR = 0.8
NONE = frozenset[str]()


def corpus(count: int) -> list[Document]:
    """Near-duplicates, exact ones over other sources, a text in another script, and texts without a word."""
    texts = list(planted(count).values())
    texts += [*texts[::7], topics["assert"], topics["assert"], "", "", "\U0001f600", "\u4f60\u597d" * 40]
    return [document(str(number), text) for number, text in enumerate(texts)]


class Store:
    """Shards of documents in a blob store, and as local files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"file://{folder}/blobs"

    def put(self, cut: Sequence[Sequence[Document]]) -> list[DocumentShardEntry]:
        entries = []
        with closing(open_blobs(self.url)) as blobs:
            for documents in cut:
                data, info = encode_document_shard(documents)
                entries.append(entry(info))
                blobs.put_if_absent(entries[-1].blob, data)
        return entries

    def file(self, shard: DocumentShardEntry) -> Path:
        return self.folder / "blobs" / shard.blob

    def here(self, entries: Sequence[DocumentShardEntry], rejected: frozenset[str] = NONE) -> Found:
        """What the embedded search finds."""
        return clusters.find(Texts(tuple(map(self.file, entries)), rejected), NEAR, self.scratch())

    def in_daft(
        self,
        entries: Sequence[DocumentShardEntry],
        rejected: frozenset[str] = NONE,
        *,
        near: float = NEAR,
        buckets: int = 3,
    ) -> Found:
        """What the plan finds, on Daft's engine for one machine."""
        shards = [(each.blob, each.info.bytes_digest) for each in entries]
        return onray.search(Engine(buckets), self.url, shards, rejected, near, self.scratch())

    def scratch(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))


def entry(info: DocumentShardInfo) -> DocumentShardEntry:
    return DocumentShardEntry(f"ingest/document-shards/{info.bytes_digest.removeprefix('blake3:')}.parquet", info)


def cut(documents: Sequence[Document], files: int) -> list[list[Document]]:
    shuffled = random.Random(files).sample(documents, len(documents))
    return [shuffled[place::files] for place in range(files)]


def said(found: Found, entries: Sequence[DocumentShardEntry]) -> tuple[bytes, str]:
    """The file of who stands for whom, and the digest that names what dedup made of these shards."""
    body = DedupBody(
        shards=tuple(entries),
        decisions="",
        clusters="dedup/clusters/x.parquet",
        documents=found.documents,
        duplicates=found.duplicates,
        near_duplicates=found.near,
        cluster_count=found.clusters,
        rejected=(),
        rejections="",
    )
    return found.path.read_bytes(), body.manifest(producer="dedup").content_digest


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.mark.parametrize(("files", "buckets"), [(1, 1), (2, 3), (8, 64)])
def test_the_plan_finds_what_is_found_without_it(store: Store, files: int, buckets: int) -> None:
    documents = corpus(200)
    rejected = frozenset(each.doc_id for each in documents[::11])
    entries = store.put(cut(documents, files))
    expected = store.here(entries, rejected)
    assert expected.near > 10
    assert expected.duplicates - expected.near > 10
    assert said(store.in_daft(entries, rejected, buckets=buckets), entries) == said(expected, entries)
    assert expected.path.read_bytes() == store.here(store.put([documents]), rejected).path.read_bytes()


def test_without_a_compiler_it_finds_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = store.put(cut(corpus(60), 2))
    expected = said(store.here(entries), entries)
    for module in ("shingles", "minhash", "verification"):
        monkeypatch.setattr(f"tutti.dedup.{module}.native", lambda: Kernel("minhash", None, "none in this test"))
    assert said(store.in_daft(entries), entries) == expected


def test_a_component_of_more_pairs_than_are_verified_together_is_cut(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"w{number}" for number in range(400)]
    chain = [document(str(step), " ".join(words[8 * step : 8 * step + 100])) for step in range(35)]
    entries = store.put([chain])
    expected = said(store.here(entries), entries)
    monkeypatch.setattr(steps, "PAIRS", 5)
    found = store.in_daft(entries)
    assert said(found, entries) == expected
    assert found.clusters == 1


def test_equal_texts_alone(store: Store) -> None:
    entries = store.put([[document("a", topics["assert"]), document("b", topics["assert"]), document("c", "other")]])
    found = store.in_daft(entries, near=0)
    assert (found.documents, found.duplicates, found.near, found.clusters) == (2, 1, 0, 1)


@pytest.mark.parametrize("seed", range(3))
def test_stars_become_components(seed: int) -> None:
    source = np.random.default_rng(seed)
    chain = np.stack([np.arange(60, 99), np.arange(61, 100)], axis=1)
    links = source.permutation(np.concatenate([source.integers(0, 60, (40, 2)), chain]))
    links = np.sort(links[links[:, 0] != links[:, 1]], axis=1)
    forest = Components(100)
    forest.join(*links.T)
    names = pa.array([bytes([number]) * 32 for number in range(100)], pa.binary())
    columns = [names.take(pa.array(links[:, 1])), names.take(pa.array(links[:, 0]))]
    rows = steps.small_star(pa.table([*columns, pa.nulls(len(links), pa.bool_())], schema=steps.LINKED))
    for _ in range(30):
        rows = steps.small_star(parted(steps.large_star, rows))
        if not rows["changed"].drop_null():
            break
    label = {(row["node"][0], row["other"][0]) for row in rows.to_pylist() if row["node"] > row["other"]}
    roots = forest.roots(np.arange(100)).tolist()
    assert label == {(number, root) for number, root in enumerate(roots) if number != root}


def parted(step: object, rows: pa.Table) -> pa.Table:
    """A step on the rows of every third node apart."""
    part = np.array([node[0] % 3 for node in rows["node"].to_pylist()])
    return pa.concat_tables([step(rows.filter(pa.array(part == each))) for each in range(3)])  # type: ignore[operator]


def test_a_shard_that_is_damaged_or_gone_is_named(store: Store) -> None:
    entries = store.put(cut(corpus(20), 2))
    path = store.file(entries[1])
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Unreadable, match=f"{entries[1].blob} is damaged"):
        store.in_daft(entries)
    path.unlink()
    with pytest.raises(Unreadable, match=r"dedup\.ray_blobs must be the store of blobs\.url"):
        store.in_daft(entries)


def test_a_node_of_another_version_is_refused(store: Store) -> None:
    rows = pa.table({"shard": [0], "blob": ["a/b/c"], "digest": ["blake3:"]})
    with pytest.raises(Unreadable, match="has version 1 of near-duplicates, expected 2"):
        Reading(store.url, version=2).names(rows)


def test_one_document_with_two_texts_is_refused(store: Store) -> None:
    one = document("a", "one")
    entries = store.put([[one], [replace(one, text_digest=document("b", "two").text_digest)]])
    with pytest.raises(ConflictingDocument, match=one.doc_id):
        store.in_daft(entries)


def test_a_cluster_that_does_not_answer_is_named() -> None:
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1 cannot be joined"):
        join("127.0.0.1:1")
