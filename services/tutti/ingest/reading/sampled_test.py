"""A sample of a folder: its records become what an ingest makes of them."""

import json
from pathlib import Path

import pytest

from tutti.ingest.reading import shards
from tutti.ingest.reading.readers import InputRootError
from tutti.ingest.reading.rejections import Reason
from tutti.ingest.reading.sampled import OF_A_FILE, Sample, sample


def read(folder: Path, most: int = 500, text_field: str = "text") -> Sample:
    return sample(shards.Reading(folder, 1 << 20, 0, text_field), most)


def lines(path: Path, count: int, field: str) -> None:
    path.write_text("".join(json.dumps({"id": n, field: f"text number {n}"}) + "\n" for n in range(count)))


def test_a_wrong_text_field_is_seen_with_the_fields_that_there_are(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", 3, "body")
    found = read(tmp_path)
    assert (found.documents, found.complete) == (0, True)
    [(count, first)] = found.rejections
    assert (count, first.reason, first.path) == (3, Reason.NO_TEXT, "a.jsonl:1")
    assert "texts are in: 'body' (input.text_field names it)" in first.detail
    assert read(tmp_path, text_field="body") == Sample(3, (), complete=True)


def test_no_file_has_the_sample_for_itself(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", OF_A_FILE + 1, "text")
    lines(tmp_path / "b.jsonl", 2, "body")
    (tmp_path / "c.html").write_text("<p>A page with a few words.</p>")
    found = read(tmp_path)
    assert (found.documents, found.complete) == (OF_A_FILE + 1, False)
    assert [(count, first.reason) for count, first in found.rejections] == [(2, Reason.NO_TEXT)]


def test_a_small_sample_has_more_than_one_file_and_names_those_without_a_text(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", 100, "text")
    lines(tmp_path / "b.jsonl", 100, "body")
    (tmp_path / "c.json").write_text(json.dumps({"name": "a package, and no text"}))
    found = read(tmp_path, most=50)
    assert [(each.path, each.records) for each in found.dropped] == [("b.jsonl", 100)]
    assert read(tmp_path, most=50, text_field="body").dropped[0].path == "a.jsonl"


def test_a_line_that_is_no_json_does_not_hide_that_no_record_has_a_text(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", 3, "body")
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("{broken\n")
    assert [(each.path, each.records) for each in read(tmp_path, most=50).dropped] == [("a.jsonl", 3)]


def test_a_file_behind_many_pages_is_reached_and_what_was_not_read_is_counted(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"a{number:02}.txt").write_text(f"a page of some words {number}")
    lines(tmp_path / "b.jsonl", 30, "body")
    lines(tmp_path / "c.jsonl", 1, "text")
    found = read(tmp_path, most=10)
    assert [(each.path, each.records) for each in found.dropped] == [("b.jsonl", 30)]
    assert (found.documents, found.complete, found.unread) == (11, False, 10)
    assert read(tmp_path, most=60, text_field="body").unread == 0


def test_a_file_whose_first_records_have_no_text_is_read_on_before_it_is_named(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d", "e"):
        lines(tmp_path / f"{name}.jsonl", 200, "text")
    lines(tmp_path / "f.jsonl", 200, "text")
    records = (tmp_path / "f.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "f.jsonl").write_text("".join(['{"id": 1}\n', '{"id": 2}\n', *records]))
    lines(tmp_path / "g.jsonl", 200, "body")
    found = read(tmp_path)
    assert [(each.path, each.records) for each in found.dropped] == [("g.jsonl", OF_A_FILE)]
    assert [(count, first.path) for count, first in found.rejections] == [(4, "f.jsonl:1")]
    assert (found.documents, found.complete) == (500, False)


def test_a_sample_has_at_most_so_many_records(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", 10, "text")
    assert read(tmp_path, most=4) == Sample(4, (), complete=False)
    assert read(tmp_path, most=10) == Sample(10, (), complete=True)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRootError, match="No such file"):
        read(tmp_path / "gone")
