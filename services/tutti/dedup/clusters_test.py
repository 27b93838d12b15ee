"""From document shards to the file of duplicates: exact ones, near ones, and both together."""

import random
from dataclasses import replace
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from tutti.corpus.documents import duplicates
from tutti.corpus.documents.documents import Document, Extraction, MediaType
from tutti.corpus.documents.documentshard import encode_document_shard
from tutti.corpus.documents.duplicates import How
from tutti.dedup.clusters import ClusterResult, Compared, find
from tutti.dedup.contamination import Sought
from tutti.dedup.shards import Texts

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


def shards(folder: Path, *cut: list[Document]) -> Texts:
    paths = [folder / f"{place}.parquet" for place in range(len(cut))]
    for path, documents in zip(paths, cut, strict=True):
        path.write_bytes(encode_document_shard(documents)[0])
    return Texts(tuple(paths))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_equal_texts_and_near_ones_have_one_that_stays(tmp_path: Path, work: Path) -> None:
    same = [document(name, PROSE) for name in "abc"]
    nearly, other = document("d", NEARLY), document("e", topics["with"])
    found = find(shards(tmp_path, [*same[:2], other], [nearly, same[2]]), 0.8, work)
    assert (found.documents, found.duplicates, found.near, found.clusters) == (2, 3, 1, 1)
    kept = min(each.doc_id for each in [*same, nearly])
    rows = {row["doc_id"]: row for row in duplicates.decode(found.path.read_bytes()).to_pylist()}
    assert list(rows) == sorted(each.doc_id for each in [*same, nearly] if each.doc_id != kept)
    assert {row["kept"] for row in rows.values()} == {kept}
    assert sorted(row["how"] for row in rows.values()) == ["exact", "exact", "near"]
    assert all(0.8 <= row["jaccard"] <= 1 for row in rows.values())


def test_what_is_rejected_stands_for_nothing(tmp_path: Path, work: Path) -> None:
    first, second, third = sorted((document(name, PROSE) for name in "abc"), key=lambda each: each.doc_id)
    own = shards(tmp_path, [first, second, third, document("d", NEARLY)])
    found = find(replace(own, without=frozenset({first.doc_id})), 0, work)
    assert (found.documents, found.duplicates) == (2, 1)
    (row,) = duplicates.decode(found.path.read_bytes()).to_pylist()
    assert (row["doc_id"], row["kept"]) == (third.doc_id, second.doc_id)


def test_without_a_similarity_only_equal_texts_are_duplicates(tmp_path: Path, work: Path) -> None:
    found = find(shards(tmp_path, [document("a", PROSE), document("b", PROSE), document("c", NEARLY)]), 0, work)
    assert (found.documents, found.duplicates, found.near, found.clusters) == (2, 1, 0, 1)


def test_the_file_does_not_depend_on_how_documents_were_cut(tmp_path: Path) -> None:
    documents = [document(str(number), text) for number, text in enumerate([PROSE, NEARLY, PROSE, topics["with"], ""])]
    files = set()
    for name, cut in (("one", [documents]), ("all", [[each] for each in reversed(documents)])):
        (tmp_path / name / "work").mkdir(parents=True)
        files.add(find(shards(tmp_path / name, *cut), 0.8, tmp_path / name / "work").path.read_bytes())
    assert len(files) == 1


def left_out(found: ClusterResult) -> dict[str, dict[str, object]]:
    return {row["doc_id"]: row for row in duplicates.decode(found.path.read_bytes()).to_pylist()}


def texts(seed: int, count: int) -> list[str]:
    """Texts of which about half are equal to or nearly the same as others, some without a word."""
    source = random.Random(seed)
    words = [f"w{number}" for number in range(4000)]
    made: list[str] = []
    for _ in range(count):
        kind = source.randrange(6)
        text = source.choice(made).split() if made and kind < 4 else source.choices(words, k=source.randrange(40, 90))
        if kind in (2, 3):
            text = [*text[:10], source.choice(words), *text[11:]]
        made.append(" ".join(text) if kind or not made else "-- " * source.randrange(3))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_against_an_earlier_dataset_stays_what_the_union_has_beside_it(tmp_path: Path, seed: int) -> None:
    every = [document(f"{seed}/{place}", text) for place, text in enumerate(texts(seed, 120))]
    earlier, later = every[:60], [*every[50:]]  # ten pages come again, unchanged
    for name in ("first", "second", "both"):
        (tmp_path / name / "work").mkdir(parents=True)
    before = shards(tmp_path / "first", earlier[:20], earlier[20:])
    before = replace(before, without=frozenset(left_out(find(before, 0.8, tmp_path / "first" / "work"))))
    kept_before = {each.doc_id for each in earlier} - before.without
    found = find(shards(tmp_path / "second", later), 0.8, tmp_path / "second" / "work", Compared(earlier=(before,)))
    rows = left_out(found)
    kept = {each.doc_id for each in later} - rows.keys()

    union = {each.doc_id: each for each in [*later, *(each for each in earlier if each.doc_id in kept_before)]}
    all_rows = left_out(find(shards(tmp_path / "both", list(union.values())), 0.8, tmp_path / "both" / "work"))
    clusters: dict[str, set[str]] = {}
    for doc_id in union:
        clusters.setdefault(str(all_rows[doc_id]["kept"]) if doc_id in all_rows else doc_id, set()).add(doc_id)
    assert kept == {name for name, members in clusters.items() if not members & kept_before}
    assert (found.documents, found.duplicates) == (len(kept), len(later) - len(kept))
    for doc_id, row in rows.items():
        mine = next(members for members in clusters.values() if doc_id in members)
        if mine & kept_before:
            assert (row["kept"], str(row["how"])[:7]) == (min(mine & kept_before), "earlier")
        else:
            assert row["how"] in ("exact", "near")
    assert found.earlier == sum(str(row["how"]).startswith("earlier") for row in rows.values()) > 10


def test_what_holds_or_is_like_an_evaluation_text_is_left_out_and_names_it(tmp_path: Path, work: Path) -> None:
    question = " ".join(f"q{number}" for number in range(30))
    asked, prose = document("evaluation.jsonl#1", question), document("evaluation.jsonl#2", PROSE)
    (tmp_path / "evaluation").mkdir()
    evaluation = shards(tmp_path / "evaluation", [asked, prose])
    holds = document("holds", f"{topics['with']}\n{question[:80].upper()}!")
    mine = [holds, document("like", NEARLY), document("same", PROSE), document("else", topics["if"])]
    found = find(shards(tmp_path, mine), 0.8, work, Compared(evaluation, Sought(words=9999)))
    assert sorted(str(row["how"]) for row in left_out(found).values()) == ["contaminated", "contaminated-near"]
    (tmp_path / "again").mkdir()
    found = find(shards(tmp_path, mine), 0.8, tmp_path / "again", Compared(evaluation))
    rows = left_out(found)
    assert (found.documents, found.contaminated, found.duplicates) == (1, 3, 0)
    assert rows.keys() == {each.doc_id for each in mine[:3]}
    assert (rows[holds.doc_id]["kept"], rows[holds.doc_id]["how"]) == (asked.doc_id, How.CONTAMINATED)
    assert {rows[each.doc_id]["kept"] for each in mine[1:3]} == {prose.doc_id}


def test_what_is_equal_to_what_is_like_an_earlier_document_is_like_it_too(tmp_path: Path, work: Path) -> None:
    (tmp_path / "earlier").mkdir()
    earlier = shards(tmp_path / "earlier", [document("e", PROSE)])
    mine = [document("a", NEARLY), document("b", NEARLY)]
    rows = left_out(find(shards(tmp_path, mine), 0.8, work, Compared(earlier=(earlier,))))
    assert {(row["how"], row["jaccard"]) for row in rows.values()} == {
        (How.EARLIER_NEAR, rows[mine[0].doc_id]["jaccard"])
    }
    assert len(rows) == 2
