"""Samples in files of others: whole, in order, the same bytes each time, of a dataset as it was tokenized."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tutti.corpus.documents.cuts import Cuts
from tutti.corpus.documents.cuts import schema as cuts_schema
from tutti.corpus.documents.cuts import write as write_cuts
from tutti.corpus.documents.documents import Document
from tutti.corpus.documents.documentshard import encode_document_shard
from tutti.corpus.documents.sampleformats import COLUMNS, FORMATS, write
from tutti.corpus.documents.samples import Sample, samples
from tutti.corpus.tokens.shards_test import document

TEXTS = ["one", "two\nlines", "käse \u4e2d", "", "five " * 40]


def made() -> Iterator[Sample]:
    for at, text in enumerate(TEXTS):
        yield Sample(
            "validation" if at == 1 else "train", f"{at:064x}", f"pages/{at}.html", f"t{at}", "text/html", text
        )


@pytest.mark.parametrize("kind", list(FORMATS))
def test_the_same_samples_give_the_same_bytes_cut_into_files_by_size(kind: str, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        told = write(made(), folder, format=kind, dataset="datasets/d", file_bytes=12)
    ending = FORMATS[kind].ending
    assert told["train"]["files"] == [f"train-{at:05}{ending}" for at in range(2)]
    assert (told["train"]["samples"], told["validation"]["samples"]) == (4, 1)
    assert told["train"]["text_bytes"] == sum(len(text.encode()) for text in TEXTS) - len(TEXTS[1])
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert first == second


def test_a_tar_has_text_and_description_of_each_sample_side_by_side(tmp_path: Path) -> None:
    write(made(), tmp_path, format="webdataset", dataset="datasets/d")
    with tarfile.open(tmp_path / "train-00000.tar") as tar:
        members = tar.getmembers()
        found = [tar.extractfile(member).read().decode() for member in members]  # type: ignore[union-attr]
    assert [each.name for each in members[:2]] == [f"{0:064x}.txt", f"{0:064x}.json"]
    assert {(each.mtime, each.uid, each.gid, each.uname, each.mode) for each in members} == {(0, 0, 0, "", 0o644)}
    assert found[::2] == [TEXTS[0], *TEXTS[2:]]
    assert json.loads(found[1]) == {
        "document": f"{0:064x}", "media_type": "text/html", "source": "pages/0.html", "title": "t0",
    }  # fmt: skip


def test_parquet_files_and_their_card_tell_the_same(tmp_path: Path) -> None:
    write(made(), tmp_path, format="hf-datasets", dataset="datasets/d")
    table = pq.read_table(tmp_path / "train-00000.parquet")  # type: ignore[no-untyped-call]
    assert table.column_names == list(COLUMNS)
    assert table["text"].to_pylist() == [TEXTS[0], *TEXTS[2:]]
    card = yaml.safe_load((tmp_path / "README.md").read_text().split("---")[1])
    (config,) = card["configs"]
    for each in config["data_files"]:
        assert [path.name for path in tmp_path.glob(each["path"])] == [f"{each['split']}-00000.parquet"]
    assert {each["name"]: each["num_examples"] for each in card["dataset_info"]["splits"]} == {
        "train": 4,
        "validation": 1,
    }
    assert [each["name"] for each in card["dataset_info"]["features"]] == list(COLUMNS)


def test_a_split_without_samples_has_no_file_and_is_in_no_card(tmp_path: Path) -> None:
    write([next(made())], tmp_path, format="hf-datasets", dataset="datasets/d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "train-00000.parquet"]
    assert "validation" not in (tmp_path / "README.md").read_text()


def shard(folder: Path, *documents: Document) -> tuple[Path, str]:
    data, info = encode_document_shard(documents)
    path = folder / f"{info.bytes_digest[7:19]}.parquet"
    path.write_bytes(data)
    return path, info.bytes_digest


def test_samples_are_the_documents_that_stay_once_each_without_what_is_cut(tmp_path: Path) -> None:
    a, b, c = (document(f"{name}.html", f"menu {name}") for name in "abc")
    rows = [{"doc_id": a.doc_id, "begin": 0, "end": 5}]
    write_cuts([pa.RecordBatch.from_pylist(rows, cuts_schema())], tmp_path / "cuts")
    cuts = Cuts(tmp_path / "cuts", tmp_path)
    shards = [shard(tmp_path, a, b), shard(tmp_path, a, c)]
    found = list(samples(shards, {b.doc_id}, {bytes.fromhex(c.doc_id)}, cuts))
    assert [(each.split, each.source, each.text) for each in found] == [
        ("train", "a.html", "a"),
        ("validation", "c.html", "menu c"),
    ]
