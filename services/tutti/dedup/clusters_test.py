"""From document shards to the file of duplicates: exact ones, near ones, and both together."""

from pathlib import Path
from pydoc_data.topics import topics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus import duplicates
from tutti.corpus.documents import Document, Extraction, MediaType
from tutti.corpus.documentshard import encode_document_shard
from tutti.corpus.duplicates import How
from tutti.dedup.clusters import Stands, find, through
from tutti.dedup.exact import exact_duplicates

NONE = frozenset[str]()
PROSE = topics["assert"]
NEARLY = PROSE.replace("optimization", "quagga", 1)


def document(source: str, text: str) -> Document:
    return Document.make(
        source=source,
        text=text,
        title="",
        media_type=MediaType.PLAIN,
        charset="utf-8",
        replaced_characters=0,
        extraction=Extraction.VERBATIM,
        normalisation_version=1,
    )


def shards(folder: Path, *cut: list[Document]) -> list[Path]:
    paths = [folder / f"{place}.parquet" for place in range(len(cut))]
    for path, documents in zip(paths, cut, strict=True):
        path.write_bytes(encode_document_shard(documents)[0])
    return paths


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_equal_texts_and_near_ones_have_one_that_stays(tmp_path: Path, work: Path) -> None:
    same = [document(name, PROSE) for name in "abc"]
    nearly, other = document("d", NEARLY), document("e", topics["with"])
    found = find(shards(tmp_path, [*same[:2], other], [nearly, same[2]]), NONE, 0.8, work)
    assert (found.documents, found.duplicates, found.near, found.clusters) == (2, 3, 1, 1)
    kept = min(each.doc_id for each in [*same, nearly])
    rows = {row["doc_id"]: row for row in duplicates.decode(found.path.read_bytes()).to_pylist()}
    assert list(rows) == sorted(each.doc_id for each in [*same, nearly] if each.doc_id != kept)
    assert {row["kept"] for row in rows.values()} == {kept}
    assert sorted(row["how"] for row in rows.values()) == ["exact", "exact", "near"]
    assert all(0.8 <= row["jaccard"] <= 1 for row in rows.values())


def test_what_is_rejected_stands_for_nothing(tmp_path: Path, work: Path) -> None:
    first, second, third = sorted((document(name, PROSE) for name in "abc"), key=lambda each: each.doc_id)
    found = find(shards(tmp_path, [first, second, third, document("d", NEARLY)]), frozenset({first.doc_id}), 0, work)
    assert (found.documents, found.duplicates) == (2, 1)
    (row,) = duplicates.decode(found.path.read_bytes()).to_pylist()
    assert (row["doc_id"], row["kept"]) == (third.doc_id, second.doc_id)


def test_without_a_similarity_only_equal_texts_are_duplicates(tmp_path: Path, work: Path) -> None:
    found = find(shards(tmp_path, [document("a", PROSE), document("b", PROSE), document("c", NEARLY)]), NONE, 0, work)
    assert (found.documents, found.duplicates, found.near, found.clusters) == (2, 1, 0, 1)


def test_the_file_does_not_depend_on_how_documents_were_cut(tmp_path: Path) -> None:
    documents = [document(str(number), text) for number, text in enumerate([PROSE, NEARLY, PROSE, topics["with"], ""])]
    files = set()
    for name, cut in (("one", [documents]), ("all", [[each] for each in reversed(documents)])):
        (tmp_path / name / "work").mkdir(parents=True)
        files.add(find(shards(tmp_path / name, *cut), NONE, 0.8, tmp_path / name / "work").path.read_bytes())
    assert len(files) == 1


IDS = "abcdef"


@given(texts=st.lists(st.sampled_from("xyz"), min_size=6, max_size=6), data=st.data())
def test_whatever_stands_for_another_stays(texts: list[str], data: st.DataObject) -> None:
    exact = exact_duplicates(zip(IDS, texts, strict=True))
    near: Stands = {}
    for place, kept in enumerate(exact.kept[1:], 1):
        roots = [each for each in exact.kept[:place] if each not in near]
        if data.draw(st.booleans()):
            near[kept] = (data.draw(st.sampled_from(roots)), How.NEAR, 0.9)
    stands = through(exact, near)
    assert {kept for kept, _, _ in stands.values()}.isdisjoint(stands)
    assert len(IDS) - len(stands) == len(exact.kept) - len(near)
