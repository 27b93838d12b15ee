"""Tokenizers beside others on the texts of a dataset: by language, as they were told, and for code."""

import shutil
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.browser.reader import assert_readable
from tests.e2e.command import ROOT, Result, tiny, tutti
from tests.e2e.mistakes_test import assert_one_line

OTHER = "some/model"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pages in English, as many in German, each the same sentences in another order; a short one in French."""
    folder = tmp_path_factory.mktemp("pages")
    for language, count in (("en", 12), ("de", 12), ("fr", 1)):
        sentences = (ROOT / "datasets" / "languages" / f"{language}.txt").read_text().split("\n")[:6]
        for number, order in enumerate(list(permutations(sentences))[: 60 * count : 60]):
            (folder / f"{language}-{number}.txt").write_text("\n".join(order))
    return folder


@pytest.fixture(scope="module")
def run(data_dir: Path, pages: Path) -> Any:
    result = tutti(*tiny(data_dir, pages, "train.steps=2", "input.limit=0", "dedup.near=0"))
    assert result.code == 0, result.err
    return result.json()


@pytest.fixture(scope="module")
def home(data_dir: Path, run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of Hugging Face, which has a model with the very tokenizer of the run."""
    folder = tmp_path_factory.mktemp("home")
    snapshot = folder / "hub" / "models--some--model" / "snapshots" / "0f"
    snapshot.mkdir(parents=True)
    tokenizer = run["dataset"]["tokenizer"]
    place = snapshot / "tokenizer.json"
    assert tutti("tokenizers", "export", tokenizer, "--to", place, "--data-dir", data_dir).code == 0
    return folder


def compared(data_dir: Path, home: Path, *arguments: str | Path) -> Result:
    return tutti("tokenizers", "compare", *arguments, "--data-dir", data_dir, extra={"HF_HOME": str(home)})


def test_each_language_counts_as_the_dataset_was_tokenized(data_dir: Path, run: Any, home: Path) -> None:
    dataset = run["dataset"]
    result = compared(data_dir, home, "--dataset", dataset["name"], "-o", "json")
    assert result.code == 0, result.err
    assert "left out, with under 1,000 bytes of text: fr (" in result.err
    rows = result.json()
    assert {row["tokenizer"] for row in rows} == {dataset["tokenizer"], OTHER}
    expected = {each.pop("language"): each for each in dataset["languages"]}
    for row in (each for each in rows if each["sample"] != "Python code"):
        told = expected[row["sample"]]
        assert [row[key] for key in ("documents", "bytes", "tokens")] == [
            told[key] for key in ("documents", "text_bytes", "tokens")
        ]
        assert row["bytes_a_token"] == round(told["bytes_a_token"], 3)
    assert [row["sample"] for row in rows[::2]] == ["de", "en", "Python code"]
    assert rows[-1]["tokens"] == rows[-2]["tokens"]


def test_a_table_has_a_row_a_language_and_is_the_same_again(data_dir: Path, run: Any, home: Path, pages: Path) -> None:
    tokenizer, name = run["dataset"]["tokenizer"], run["run"]["name"]
    first = compared(data_dir, home, tokenizer, pages / "fr-0.txt", "--dataset", name)
    assert first.out == compared(data_dir, home, tokenizer, pages / "fr-0.txt", "--dataset", name).out
    head, *rows = first.out.splitlines()
    assert f"{tokenizer[:23]} (512)  {OTHER} (512)" in head
    assert [row.split()[0] for row in rows] == ["de", "en", str(pages / "fr-0.txt")]
    assert all(len(set(row.split()[-2:])) == 1 for row in rows)


def test_a_report_shows_what_others_make_of_each_language(data_dir: Path, run: Any, home: Path, tmp_path: Path) -> None:
    for name, others in (("with.html", home), ("without.html", tmp_path)):
        result = tutti("report", "--out", tmp_path / name, "--data-dir", data_dir, extra={"HF_HOME": str(others)})
        assert result.code == 0, result.err
    assert OTHER not in (tmp_path / "without.html").read_text()
    rows = (tmp_path / "with.html").read_text().partition(OTHER)[2].partition("</table>")[0].split("</tr>")[1:-1]
    told = [f"{each['bytes_a_token']:.2f}</td>" for each in run["dataset"]["languages"]]
    assert [row.count(words) for row, words in zip(rows, told, strict=True)] == [2, 2, 1]
    assert_readable(tmp_path / "with.html")


def test_who_has_no_other_tokenizer_is_told_how_to_get_one(data_dir: Path, run: Any, tmp_path: Path) -> None:
    result = compared(data_dir, tmp_path, "--dataset", run["dataset"]["name"])
    assert result.code == 0, result.err
    assert [row.split()[0] for row in result.out.splitlines()[1:]] == ["de", "en", "Python"]
    assert "--with path/to/tokenizer.json" in result.err


def test_what_cannot_be_compared_is_refused_in_a_line(data_dir: Path, run: Any, home: Path) -> None:
    assert_one_line(compared(data_dir, home, "none"), 1, "tokenizers/none does not exist")
    nowhere = compared(data_dir, home, "--dataset", "none")
    assert_one_line(nowhere, 1, "datasets/none does not exist", "`tutti datasets ls`")
    assert_one_line(compared(data_dir, home, "--dataset", "runs/none"), 1, "runs/none does not exist")


def test_a_dataset_whose_texts_are_gone_says_so(data_dir: Path, run: Any, home: Path, tmp_path: Path) -> None:
    shards = data_dir / "blobs" / "ingest" / "document-shards"
    shutil.move(shards, tmp_path / "away")
    try:
        gone = compared(data_dir, home, "--dataset", run["dataset"]["name"])
    finally:
        shutil.move(tmp_path / "away", shards)
    assert_one_line(gone, 1, "ingest/document-shards/", "is gone; run its recipe again", "SOURCES_GONE")
