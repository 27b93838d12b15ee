"""The ingest service: pages become a result, and where they lie is told to nobody."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.errors import AlreadyExists, DeadlineExceeded, InvalidField
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Service
from tutti.chassis.tasks import TaskWorker
from tutti.chassis.tasks_test import Bench
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, GetRequest
from tutti.contracts.ingest.v1 import CreateIngestRequest, DigestInputRequest, Ingest, IngestSpec
from tutti.ingest.service import build
from tutti.platform.pool import ProcessPool

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)
DIGEST = "blake3:" + "0" * 64


class World:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.pages = folder / "a-secret-place"
        self.pages.mkdir()
        (self.pages / "a.txt").write_text("one page")
        self.bench = Bench(EmbeddedBlobs(folder / "blobs"), service="ingest", values=settings)
        self.service: Service = build(self.bench)
        self.bench.database.create(self.bench.metadata)
        api: Any = self.service.serves[0].api
        self.api = api

    def create(self, path: Path | str, **more: Any) -> Ingest:
        spec = IngestSpec(input_path=str(path), **more)
        request = CreateIngestRequest(name="ingests/a", request_id="a", spec=spec)
        found: Ingest = self.api.CreateIngest(request, CALL).ingest
        return found

    def work(self) -> Ingest:
        TaskWorker(self.bench, {kind.name: kind for kind in self.service.tasks}, holder="a").step()
        found: Ingest = self.api.GetIngest(GetRequest(name="ingests/a"), CALL)
        return found

    def rows(self, folder: str) -> list[dict[str, Any]]:
        """The rows of the Parquet blobs of a folder."""
        found = [self.bench.blobs.get(each.key) for each in self.bench.blobs.list(folder)]
        return [row for data in found for row in pq.read_table(pa.BufferReader(data)).to_pylist()]  # type: ignore[no-untyped-call]

    def told(self) -> bytes:
        """Every value in every row but those of the private table."""
        tables = [table for table in self.bench.metadata.sorted_tables if table.name != "paths"]
        rows = self.bench.units.run(
            lambda unit: [row for table in tables for row in unit.tx.execute(select(table)).all()]
        )
        values = [value for row in rows for value in row]
        return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in values)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.bench.database.close()


def test_where_the_pages_lie_is_in_no_resource_and_no_event(world: World) -> None:
    assert world.create(world.pages).spec.input_path == ""
    done = world.work()
    assert (done.state, done.documents) == (STATE_DONE, 1)
    told = world.told()
    assert b"ingests/a" in told
    assert b"a-secret-place" not in told


def test_the_same_request_is_the_same_ingest_and_another_path_is_refused(world: World) -> None:
    first = world.create(world.pages)
    assert world.create(world.pages) == first
    with pytest.raises(AlreadyExists):
        world.create(world.pages / "elsewhere")
    assert world.work().state == STATE_DONE


def test_a_folder_that_became_a_link_out_of_the_roots_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("another page")
    world = World(tmp_path, roots=[str(tmp_path / "a-secret-place")])
    (world.pages / "below").mkdir()
    (world.pages / "below" / "a.txt").write_text("one page")
    world.create(world.pages / "below")
    (world.pages / "below").rename(world.pages / "before")
    (world.pages / "below").symlink_to(tmp_path / "other")
    failed = world.work()
    assert failed.state == STATE_FAILED
    assert failed.reason.endswith("allowed folders; expected a folder in one of ingest.roots")
    assert "other" not in failed.reason
    world.bench.database.close()


def test_what_is_left_out_of_a_folder_is_counted_by_reason(world: World) -> None:
    for name, data in (("b.pdf", b"%PDF-1.7\n%\xe2\xe3"), ("c.PDF", b"%PDF-1.4"), ("d.html", b"\x89PNG\r\n")):
        (world.pages / name).write_bytes(data)
    world.create(world.pages)
    done = world.work()
    assert (done.documents, done.rejected) == (1, 3)
    assert {each.reason: each.pages for each in done.left_out} == {"pdf": 2, "binary": 1}


def test_personal_data_is_masked_before_a_text_is_kept_and_counted_as_it_stood_there(world: World) -> None:
    words = "Write to ada@analytical.org or ada@analytical.org, or call +44 20 7946 0958."
    (world.pages / "b.html").write_text(f"<title>ada@analytical.org</title><p>{words}</p>")
    world.create(world.pages, mask=["email"])
    done = world.work()
    assert [(each.kind, each.places) for each in done.masked] == [("email", 2)]
    rows = {row["source"]: row for row in world.rows("ingest/document-shards/")}
    assert rows["b.html"]["text"] == "Write to [email] or [email], or call +44 20 7946 0958."
    assert rows["b.html"]["title"] == "[email]"
    counts = {row["doc_id"]: (row["pii_emails"], row["pii_phones"]) for row in world.rows("ingest/measures/")}
    assert counts[rows["b.html"]["doc_id"]] == (2, 1)
    assert counts[rows["a.txt"]["doc_id"]] == (0, 0)


def test_a_kind_of_personal_data_that_is_not_known_is_refused(world: World) -> None:
    with pytest.raises(InvalidField, match=r"spec\.mask.*email, phone, key, card, address"):
        world.create(world.pages, mask=["emails"])


def test_an_engine_that_is_not_here_is_refused(world: World) -> None:
    with pytest.raises(InvalidField, match=r"spec\.engine.*local, since no cluster is known.*set ingest\.ray"):
        world.create(world.pages, engine="ray")
    with pytest.raises(InvalidField, match=r"spec\.engine.*local or ray"):
        world.create(world.pages, engine="spark")


def test_a_folder_with_other_pages_than_were_asked_for_says_which_command_reads_these(world: World) -> None:
    world.create(world.pages, input_digest=DIGEST)
    failed = world.work()
    assert failed.state == STATE_FAILED
    assert f"other pages than those of this run: it is of {DIGEST}, there lie blake3:" in failed.reason
    assert "`tutti run` of its recipe, or with --data, reads what lies there now" in failed.reason


def test_a_folder_that_is_gone_fails_the_work_without_its_path(world: World) -> None:
    world.create(world.pages / "gone")
    failed = world.work()
    assert (failed.state, failed.reason) == (
        STATE_FAILED,
        "input.path: No such file or directory; expected a folder that this user may list, or a file",
    )
    assert b"a-secret-place" not in world.told()


@pytest.mark.parametrize("path", ["relative", "", "/with\0nul"])
def test_a_path_that_is_none_is_refused(world: World, path: str) -> None:
    with pytest.raises(InvalidField, match=r"spec\.input_path"):
        world.create(path)
    with pytest.raises(InvalidField, match=r"spec\.input_path"):
        world.api.DigestInput(DigestInputRequest(spec=IngestSpec(input_path=path)), CALL)


def test_a_folder_is_read_for_as_long_as_the_caller_waits(world: World) -> None:
    request = DigestInputRequest(spec=IngestSpec(input_path=str(world.pages)))
    with closing(ProcessPool(1)) as pool:
        world.bench.pool = pool
        assert world.api.DigestInput(request, CALL).files == 1
        with pytest.raises(DeadlineExceeded, match="not read within 0 s"):
            world.api.DigestInput(request, replace(CALL, deadline_seconds=0.0))
