"""Batches: several processes give what one gives, in its order."""

import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest.quality.findings import Kind
from tutti.ingest.quality.measures import Models
from tutti.ingest.reading import batches, shards
from tutti.ingest.reading.batches import Batch
from tutti.ingest.reading.containers import Page, Text
from tutti.ingest.reading.readers import InputRootError
from tutti.ingest.reading.rejections import Reason, Rejection

WORDS = ["the", "river", "flows", "through", "a", "town", "and", "people", "are", "happy", "with", "it"]


@given(st.lists(st.integers(0, 3 * batches.BATCH_BYTES), max_size=4), st.integers(0, 2_000))
def test_batches_keep_the_order_and_their_size(large: list[int], small: int) -> None:
    records = [("a", Text(str(at), "x" * size, "")) for at, size in enumerate([*large, *[1] * small])]
    found = list(batches.batches(records))
    assert [each for batch in found for each in batch] == records
    for batch in found:
        assert 0 < len(batch) <= batches.BATCH_RECORDS
        assert sum(len(record.text) for _, record in batch[:-1] if isinstance(record, Text)) < batches.BATCH_BYTES


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    filled(folder)
    return folder


def filled(folder: Path) -> None:
    """Several megabytes: pages, records, some of both that are left out, some that repeat themselves."""
    chance = random.Random(4)

    def text() -> str:
        return " ".join(chance.choices(WORDS, k=3_000)) + " Write to ada@analytical.org."

    for number in range(150):
        (folder / f"{number:03}.html").write_text(f"<title>{number}</title><main><p>{text()}</p></main>")
    (folder / "empty.html").write_text("")
    (folder / "picture.html").write_bytes(b"\x89PNG" + bytes(100))
    lines = [json.dumps({"text": text(), "url": f"https://a.example/{number}"}) for number in range(150)]
    (folder / "records.jsonl").write_text("\n".join([*lines, "rubbish", lines[7], lines[7]]))


Files = tuple[object, list[bytes]]


def written(pages: Path, scratch: Path, workers: int, ray: str = "", models: Models = ()) -> Files:
    """What was written, but for paths, and the bytes of all files."""
    scratch.mkdir()
    reading = shards.Reading(pages, 1 << 20, 0, mask=frozenset({Kind.EMAIL}), models=models)
    made = shards.write_shards(reading, scratch, workers, ray)
    files = [path.read_bytes() for shard in made.shards for path in (shard.path, shard.measures)]
    told = [asdict(shard.info) for shard in made.shards], made.rejections.path.read_bytes(), made.survey, made.masked
    return told, files


def test_any_number_of_workers_writes_the_same_bytes(
    pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_TEXT_BYTES", 3 << 20)
    monkeypatch.setattr(batches, "BATCH_BYTES", 1 << 19)
    alone = written(pages, tmp_path / "1", 1)
    assert len(alone[1]) >= 4
    assert written(pages, tmp_path / "2", 2) == alone
    assert written(pages, tmp_path / "4", 4) == alone


def test_what_reading_raises_is_raised_and_no_process_stays(pages: Path, tmp_path: Path) -> None:
    def read() -> Iterator[Batch]:
        for number in range(6):
            yield Batch([("a", Page(f"{number}.txt", b"some words"))])
        raise InputRootError("it is gone")

    with pytest.raises(InputRootError, match="it is gone"):
        list(batches.made(read(), (), 2, tmp_path))


def test_a_rejection_stays_where_it_stood(tmp_path: Path) -> None:
    batch = Batch([("a", Text("1", "one", "")), ("b", Rejection("2", Reason.EMPTY, "")), ("c", Text("3", "three", ""))])
    made = batches.make(batch, ())
    assert [path for path, _ in made.items] == ["a", "b", "c"]
    assert made.rows["doc_id"].to_pylist() == [
        each.document.doc_id for _, each in made.items if not isinstance(each, Rejection)
    ]
