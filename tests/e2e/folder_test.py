"""A folder with a file of every kind: what is read of it, and what is left out for which reason."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.command import tutti
from tutti.ingest.reading.containers_test import answer, record

PLACE = "The {} stands at the {} of the town, where {} people meet on {} and talk about the weather of the week."
ENOUGH = ("size=tiny", "tokenizer.vocabulary=300", "data.context=32", "train.steps=2", "train.warmup=0")


def text(number: int) -> str:
    """Of which no two are nearly the same."""
    names = [[f"{word}{number * 7 + part}" for word in "abcd"] for part in range(6)]
    return " ".join(PLACE.format(*each) for each in names)


def lines(*numbers: int) -> bytes:
    return "\n".join(json.dumps({"text": text(number)}) for number in numbers).encode()


def page(number: int) -> bytes:
    return f"<!doctype html><title>A page</title><main><p>{text(number)}</p></main>".encode()


def answered(number: int, **more: Any) -> bytes:
    return answer(f"https://a.example/{number}", page(number), **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("Nobody is to read this.")
    made = tmp_path_factory.mktemp("every") / "a folder of all kinds"
    (made / "below").mkdir(parents=True)
    missing = record("metadata", "https://a.example/", b"a: b\r\n", "application/warc-fields")
    files = {
        "page.html": page(0),
        "notes.txt": text(1).encode(),
        "below/readme.md": f"# Readme\n\n{text(2)}".encode(),
        "lines.jsonl": lines(3, 4) + b'\nrubbish\n{"body": "no text"}\n' + lines(5),
        "lines.jsonl.gz": gzip.compress(lines(6)),
        "lines.jsonl.zst": pa.compress(lines(7), "zstd", asbytes=True),
        "site.warc": answered(8) + missing + answered(20, status="404 Not Found"),
        "site.warc.gz": gzip.compress(answered(9)) + gzip.compress(answered(10)),
        "same.txt": text(1).encode(),
        "paper.pdf": b"%PDF-1.7\n%\xe2\xe3",
        "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(64),
        "unknown.bin": bytes(range(256)) * 8,
        "empty.txt": b"",
        "cut.jsonl.gz": gzip.compress(lines(11))[:-9],
        "no.parquet": b"PAR1 and no more",
    }
    for name, data in files.items():
        (made / name).write_bytes(data)
    pq.write_table(pa.table({"text": [text(12), None]}), made / "rows.parquet")  # type: ignore[no-untyped-call]
    pq.write_table(pa.table({"words": [text(13)]}), made / "other.parquet")  # type: ignore[no-untyped-call]
    (made / "below" / "loop").symlink_to(made)
    (made / "itself").symlink_to("itself")
    (made / "outside.txt").symlink_to(outside / "secret.txt")
    os.mkfifo(made / "pipe")
    return made


def test_what_is_read_of_a_folder_and_what_is_left_out_is_told_by_reason(
    folder: Path, served: Path, tmp_path: Path
) -> None:
    sets = [part for each in ENOUGH for part in ("--set", each)]
    refused = tutti("run", "--data", folder, *sets, "--data-dir", served)
    assert refused.code == 1  # a file of which nothing would be read
    assert "other.parquet" in refused.err
    result = tutti(
        "run", "--data", folder, *sets, "--set", "input.most_rejected=0.9", "-o", "json", "--data-dir", served
    )
    assert result.code == 0, result.err
    assert "Traceback" not in result.err
    made = result.json()
    assert {each["reason"]: each["pages"] for each in made["ingest"]["left_out"]} == {
        "binary": 2, "damaged": 2, "empty": 1, "link_broken": 2, "link_outside": 1, "malformed": 1, "no_text": 3,
        "not_a_file": 1, "not_ok": 1, "pdf": 1,
    }  # fmt: skip
    assert (made["ingest"]["documents"], made["dedup"]["documents"], made["dedup"]["duplicates"]) == (13, 12, 1)

    rejected = tutti("documents", "rejected", "--run", made["run"]["name"], "-o", "json", "--data-dir", served).json()
    assert {each["source"]: each["what"].removeprefix("rejected/") for each in rejected} == {
        "below/loop": "link_broken",
        "cut.jsonl.gz": "damaged",
        "empty.txt": "empty",
        "https://a.example/20": "not_ok",
        "itself": "link_broken",
        "lines.jsonl:3": "malformed",
        "lines.jsonl:4": "no_text",
        "no.parquet": "damaged",
        "other.parquet": "no_text",
        "outside.txt": "link_outside",
        "paper.pdf": "pdf",
        "picture.png": "binary",
        "pipe": "not_a_file",
        "rows.parquet:2": "no_text",
        "unknown.bin": "binary",
    }
    assert all(each["detail"] and str(folder) not in each["detail"] for each in rejected)

    export = ("datasets", "export", made["run"]["name"], "--format", "hf-datasets", "--to", tmp_path / "texts")
    assert tutti(*export, "--data-dir", served).code == 0
    rows = [row for file in (tmp_path / "texts").glob("*.parquet") for row in pq.read_table(file).to_pylist()]  # type: ignore[no-untyped-call]
    (notes,) = {"notes.txt", "same.txt"} & {row["source"] for row in rows}  # of equal texts one stays
    assert {row["source"]: row["text"] for row in rows} == {
        "page.html": text(0),
        notes: text(1),
        "below/readme.md": f"# Readme\n\n{text(2)}",
        "lines.jsonl:1": text(3),
        "lines.jsonl:2": text(4),
        "lines.jsonl:5": text(5),
        "lines.jsonl.gz:1": text(6),
        "lines.jsonl.zst:1": text(7),
        "https://a.example/8": text(8),
        "https://a.example/9": text(9),
        "https://a.example/10": text(10),
        "rows.parquet:1": text(12),
    }


def test_a_wrong_text_field_is_seen_before_a_run_and_stops_one(served: Path, tmp_path: Path) -> None:
    """Eight records have their text under another name, and two pages would be all that is trained on."""
    source = tmp_path / "mine"
    source.mkdir()
    (source / "mine.jsonl").write_text("".join(json.dumps({"id": n, "body": text(n)}) + "\n" for n in range(8)))
    for number in (8, 9):
        (source / f"{number}.txt").write_text(text(number))
    arguments: list[str | Path] = [
        "--data",
        source,
        *(part for each in ENOUGH for part in ("--set", each)),
        "--data-dir",
        served,
    ]
    detail = "the field 'text' is missing; texts are in: 'body' (input.text_field names it)"
    why = f"mine.jsonl:1: {detail}"

    check = tutti("recipes", "check", *arguments)
    assert check.code == 2
    assert f"input.text_field: expected a field with the texts: {detail}" in check.out
    said = " ".join(check.err.split())
    assert "8 of 10 sampled pages and records would be rejected" in said
    assert f"n = 10); 8 as no_text: {why}" in said
    plan = tutti("recipes", "plan", *arguments)
    assert plan.code == 0, plan.err
    assert f"input.path: {source}: of all 10 pages and records 2 are read as text\n" in plan.out
    assert f"  8 rejected, no_text: {why}\n" in plan.out

    run = tutti("run", *arguments)
    assert run.code == 1
    assert "ingest: 80% of 10 pages and records were rejected (8 no_text); expected at most 50%" in run.err
    assert "Set input.text_field to the name of the field that holds the texts." in run.err
    again = tutti("run", *arguments)
    assert "80% of 10 pages and records were rejected" in again.err
    allowed = tutti("run", *arguments, "--set", "input.most_rejected=0.8", "-o", "json")
    assert allowed.code == 0, allowed.err
    named = tutti("run", *arguments, "--set", "input.text_field=body", "-o", "json")
    assert named.code == 0, named.err
    assert named.json()["ingest"]["documents"] == 10


SAME = {f"{number}.txt": text(0) for number in range(5)}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"one.txt": text(0)}, "tokenization: one document stays; expected at least 2"),
        (SAME, "tokenization: one document stays (left out: 4 duplicate); expected at least 2"),
        (
            {"a.txt": "\n\n\n", "b.md": ""},
            "ingest: none of the 2 files under input.path could be read as text (2 empty)",
        ),
    ],
    ids=["one-document", "all-duplicates", "newlines"],
)
def test_a_folder_that_is_no_corpus_ends_with_one_line(
    files: dict[str, str], words: str, served: Path, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    sets = [part for each in ENOUGH for part in ("--set", each)]
    result = tutti("run", "--data", tmp_path, *sets, "-o", "json", "--data-dir", served)
    assert (result.code, result.err.count("\n")) == (1, 1), result.err
    assert words in result.err
