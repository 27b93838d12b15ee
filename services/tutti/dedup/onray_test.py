"""What is left out and cut by the plan, in Daft: the same files as without it, for any cut.

On Ray: tests/corpus/digests_test.py.
"""

import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tutti.backbone.connect import open_blobs
from tutti.corpus.documents import duplicates
from tutti.corpus.documents.documents import Document
from tutti.corpus.documents.documentshard import DocumentShardInfo, encode_document_shard
from tutti.corpus.documents.duplicates import How
from tutti.corpus.documents.stages import DedupBody, DocumentShardEntry
from tutti.dedup import clusters, contamination, lines, onray, steps
from tutti.dedup.clusters import ClusterResult, Compared, Held
from tutti.dedup.clusters_test import document, texts
from tutti.dedup.components import Components
from tutti.dedup.contamination import Sought, TooManyTexts
from tutti.dedup.cutting import Cutting, names_units
from tutti.dedup.exact import ConflictingDocument
from tutti.dedup.lines import LineLimits, Lines
from tutti.dedup.near_test import planted
from tutti.dedup.reading import SHARDS, Placed, Reading, Unreadable
from tutti.dedup.representatives import OWN
from tutti.dedup.shards import Texts
from tutti.dedup.units import Unit
from tutti.dedup.version import LOGIC_VERSION
from tutti.native.native import Kernel
from tutti.platform.cluster import ClusterUnreachable

NEAR = 0.8
NONE = frozenset[str]()
SOUGHT = Sought(words=20, share=0.7)


def corpus(count: int) -> list[Document]:
    """Near-duplicates, exact ones over other sources, a text in another script, and texts without a word."""
    found = list(planted(count).values())
    found += [*found[::7], topics["assert"], topics["assert"], "", "", "\U0001f600", "\u4f60\u597d" * 40]
    return [document(str(number), text) for number, text in enumerate(found)]


Entries = Sequence[DocumentShardEntry]
Kept = tuple[Entries, frozenset[str]]
"""Shards, and the ids of their documents that are left out."""


@dataclass(frozen=True)
class Asked:
    """A search for all that is left out and cut."""

    own: Kept
    earlier: Sequence[Kept] = ()
    evaluation: Entries = ()
    near: float = NEAR
    wanted: LineLimits | None = None
    clean: bool = False

    def there(self) -> tuple[Placed, Compared[Placed]]:
        """Where the nodes find the documents."""

        def placed(kept: Kept) -> Placed:
            return Placed(tuple((each.blob, each.info.bytes_digest) for each in kept[0]), kept[1])

        return placed(self.own), self.compared(placed)

    def compared(self, held: Callable[[Kept], Held]) -> Compared[Held]:
        evaluation = held((self.evaluation, NONE)) if self.evaluation else None
        return Compared(evaluation, SOUGHT, tuple(map(held, self.earlier)))


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

    def here(self, entries: Entries, rejected: frozenset[str] = NONE) -> ClusterResult:
        """What the embedded search finds."""
        return self.all_here(Asked((entries, rejected)))[0]

    def in_daft(
        self, entries: Entries, rejected: frozenset[str] = NONE, *, near: float = NEAR, buckets: int = 3
    ) -> ClusterResult:
        """What the plan finds, on Daft's engine for one machine."""
        return self.all_in_daft(Asked((entries, rejected), near=near), buckets=buckets)[0]

    def all_here(self, asked: Asked) -> tuple[ClusterResult, Lines | None]:
        def held(kept: Kept) -> Texts:
            return Texts(tuple(map(self.file, kept[0])), kept[1])

        own = held(asked.own)
        found = clusters.find(own, asked.near, self.scratch(), asked.compared(held))
        if not (asked.wanted or asked.clean):
            return found, None
        gone = own.without.union(duplicates.decode(found.path.read_bytes())["doc_id"].to_pylist())
        return found, lines.find(replace(own, without=gone), asked.wanted, self.scratch(), clean=asked.clean)

    def all_in_daft(self, asked: Asked, *, buckets: int = 3) -> tuple[ClusterResult, Lines | None]:
        from tutti.dedup.engine import Engine  # Daft and Ray, which every worker would import

        own, compared = asked.there()
        return onray.search(
            Engine(buckets), self.url, own, asked.near, self.scratch(), compared, asked.wanted, clean=asked.clean
        )

    def scratch(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))


def entry(info: DocumentShardInfo) -> DocumentShardEntry:
    return DocumentShardEntry(f"ingest/document-shards/{info.bytes_digest.removeprefix('blake3:')}.parquet", info)


def told(found: ClusterResult, made: Lines | None) -> tuple[bytes, ClusterResult, bytes, Lines | None]:
    """Both files, and everything that was counted."""
    nowhere = Path()
    cuts = made.path.read_bytes() if made else b""
    return found.path.read_bytes(), replace(found, path=nowhere), cuts, replace(made, path=nowhere) if made else None


def shared(seed: int, count: int) -> list[Document]:
    """Texts of which about half are like others, with lines that many have; some end as C4 wants it."""
    common = [f"This line number {number} is {'above' * number}{'.' * (number % 2)}" for number in range(8)] + ["}"]
    made = []
    for place, text in enumerate(texts(seed, count)):
        words = text.split()
        source = random.Random(" ".join(words[:5]))  # so that texts that are alike stay so
        ends = source.choice(["", ".", "."])
        parts = [" ".join(words[at : at + 12]) + ends for at in range(0, len(words), 12)]
        for line in source.sample(common, source.randrange(5)):
            parts.insert(source.randrange(len(parts) + 1), line)
        made.append(document(f"{seed}/{place}", source.choice(["\n", "\n\n"]).join(parts)))
    return made


def all_at_once(store: Store, seed: int, files: int, count: int = 120) -> Asked:
    """Documents of which some were in two earlier datasets, each of which rejected others, and some in two shards;
    evaluation texts are like some, and parts of others."""
    every = shared(seed, count)
    third = count // 3
    first, second, own = every[: 2 * third], every[third // 2 : 2 * third], every[third:]
    like = [document(f"evaluation/{each.source}", each.text) for each in every[third::19]]
    parts = [document(f"part/{each.source}", " ".join(each.text.split()[8:40])) for each in every[third + 1 :: 17]]

    def ids(documents: Sequence[Document]) -> frozenset[str]:
        return frozenset(each.doc_id for each in documents)

    return Asked(
        (store.put([*cut(own, files), own[::7]]), ids(own[::9])),
        (
            (store.put(cut(first, 2)), ids(first[::2])),
            (store.put([second]), ids(second[::2])),
        ),
        store.put(cut([*like, *parts], 2)),
    )


def cut(documents: Sequence[Document], files: int) -> list[list[Document]]:
    shuffled = random.Random(files).sample(documents, len(documents))
    return [shuffled[place::files] for place in range(files)]


def said(found: ClusterResult, entries: Sequence[DocumentShardEntry]) -> tuple[bytes, str]:
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


ASKED: dict[str, dict[str, Any]] = {
    "earlier": {"evaluation": ()},
    "evaluation": {"earlier": ()},
    "equal texts alone": {"near": 0.0},
    "lines": {"earlier": (), "evaluation": (), "wanted": LineLimits(most=3, left=150)},
    "paragraphs that some keep": {"earlier": (), "evaluation": (), "wanted": LineLimits(Unit.PARAGRAPH, 2, 2, left=20)},
    "cleaned": {"earlier": (), "evaluation": (), "near": 0.0, "clean": True},
    "everything": {"wanted": LineLimits(most=2, keep=1, left=100), "clean": True},
}


@pytest.mark.parametrize("what", ASKED)
def test_whatever_is_asked_for_is_found_as_it_is_without_it(store: Store, what: str) -> None:
    asked = replace(all_at_once(store, 3, 5), **ASKED[what])
    assert told(*store.all_in_daft(asked, buckets=7)) == told(*store.all_here(asked))


@pytest.mark.parametrize(("files", "buckets"), [(1, 2), (3, 1), (6, 16)])
def test_everything_at_once_is_found_as_it_is_without_it(store: Store, files: int, buckets: int) -> None:
    asked = replace(all_at_once(store, 2, files), **ASKED["everything"])
    found, made = store.all_here(asked)
    rows = duplicates.decode(found.path.read_bytes())
    assert {*rows["how"].to_pylist()} == {*How}
    assert made is not None
    assert min(made.documents, made.units, made.cleaned, len(made.short), len(made.bare), len(made.examples)) > 0
    assert told(*store.all_in_daft(asked, buckets=buckets)) == told(found, made)


def test_without_a_compiler_it_finds_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = store.put(cut(corpus(60), 2))
    expected = said(store.here(entries), entries)
    everything = replace(all_at_once(store, 4, 2, 45), **ASKED["everything"])
    known = told(*store.all_here(everything))
    for module in ("shingles", "minhash", "verification", "units"):
        monkeypatch.setattr(f"tutti.dedup.{module}.native", lambda: Kernel("minhash", None, "none in this test"))
    assert said(store.in_daft(entries), entries) == expected
    assert told(*store.all_in_daft(everything)) == known


def test_a_node_that_would_name_lines_otherwise_is_refused(store: Store) -> None:
    cutting = Cutting(Reading(store.url), LineLimits(), clean=False, kernel=not names_units())
    with pytest.raises(Unreadable, match="have a C compiler on all of them, or on none"):
        cutting.units(SHARDS.empty_table())


def test_more_evaluation_texts_than_can_be_held_are_refused_as_they_are_without_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contamination, "LARGEST", 10)
    with pytest.raises(TooManyTexts, match="more than 10 n-grams"):
        store.all_in_daft(replace(all_at_once(store, 1, 2), earlier=()))


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
    rows = pa.table({"shard": [0], "part": [OWN], "of": [0], "blob": ["a/b/c"], "digest": ["blake3:"]})
    with pytest.raises(Unreadable, match=f"has version {LOGIC_VERSION} of dedup, expected an earlier one"):
        Reading(store.url, version="an earlier one").names(rows)


def test_one_document_with_two_texts_is_refused(store: Store) -> None:
    one = document("a", "one")
    entries = store.put([[one], [replace(one, text_digest=document("b", "two").text_digest)]])
    with pytest.raises(ConflictingDocument, match=one.doc_id):
        store.in_daft(entries)


def test_a_cluster_that_does_not_answer_is_named() -> None:
    from tutti.dedup.engine import join

    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1 cannot be joined"):
        join("127.0.0.1:1")
