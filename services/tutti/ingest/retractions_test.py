"""Retractions: what is named is left out of every filter from now on, whoever read it, until that is withdrawn."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tutti.chassis.errors import AlreadyExists, DeadlineExceeded, InvalidField, NotFound, Refused
from tutti.chassis.tasks import TaskWorker
from tutti.chassis.work.work import publish, put_file
from tutti.contracts.common.v1 import STATE_DONE, Artifact, GetRequest, ListRequest
from tutti.contracts.ingest.v1 import (
    CreateFilterRequest,
    CreateIngestRequest,
    CreateRetractionRequest,
    Filter,
    FilterSpec,
    FindRetractedRequest,
    FindRetractedResponse,
    Ingest,
    IngestSpec,
    Retraction,
    RetractionSpec,
    WithdrawRetractionRequest,
)
from tutti.corpus.documents import duplicates
from tutti.corpus.documents.documents import document_id
from tutti.corpus.documents.stages import DedupBody, IngestBody
from tutti.ingest.crawl.urls import NotAPage, canonical
from tutti.ingest.seeking import form
from tutti.ingest.service_test import CALL, World
from tutti.records.canonical import parse_json
from tutti.records.manifest import Kind, Manifest

PREFIX = "documents/"
RECORD = '{"text": "%s", "url": "https://a.example/B"}'


class Read(World):
    """A folder of three pages is read, as ingests/a."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.pages / "b.txt").write_text("another page")
        (self.pages / "c.jsonl").write_text(RECORD % "a record")
        self.a = self.ingest("a")

    def work_off(self) -> None:
        TaskWorker(self.bench, {kind.name: kind for kind in self.service.tasks}, holder="a").step()

    def ingest(self, name: str) -> Ingest:
        spec = IngestSpec(input_path=str(self.pages))
        self.api.CreateIngest(CreateIngestRequest(name=f"ingests/{name}", request_id=name, spec=spec), CALL)
        self.work_off()
        found: Ingest = self.api.GetIngest(GetRequest(name=f"ingests/{name}"), CALL)
        return found

    def retract(self, *, source: str = "", document: str = "", reason: str = "asked for", **more: object) -> Retraction:
        spec = RetractionSpec(source=source, document=document, reason=reason)
        request = CreateRetractionRequest(spec=spec, **more)  # type: ignore[arg-type]
        answer = self.api.CreateRetraction(request, CALL)
        self.left_out, self.already = set(answer.documents), answer.already
        assert answer.document_count == len(answer.documents)
        found: Retraction = answer.retraction
        return found

    def find(self, result: Artifact) -> FindRetractedResponse:
        asked = FindRetractedRequest(manifest_key=result.manifest_key, content_digest=result.content_digest)
        found: FindRetractedResponse = self.api.FindRetracted(asked, CALL)
        return found

    def retracted(self, made: Ingest | Artifact) -> set[str]:
        """The ids that a filter of this ingest is to leave out, or that are so of this result of a dedup."""
        found = self.find(made.result if isinstance(made, Ingest) else made)
        ids = parse_json(self.bench.blobs.get(found.retracted_key)) if found.retracted_key else []
        assert isinstance(ids, list)
        assert found.documents == len(ids)
        return set(map(str, ids))

    def filter(self, name: str, ingest: Ingest, retracted: str) -> Filter:
        result = ingest.result
        spec = FilterSpec(
            manifest_key=result.manifest_key, content_digest=result.content_digest, retracted_key=retracted
        )
        self.api.CreateFilter(CreateFilterRequest(name=f"filters/{name}", request_id=name, spec=spec), CALL)
        self.work_off()
        found: Filter = self.api.GetFilter(GetRequest(name=f"filters/{name}"), CALL)
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Read]:
    made = Read(tmp_path)
    yield made
    made.bench.database.close()


def name(source: str, text: str) -> str:
    return document_id(source=source, text=text)


def test_a_source_means_every_text_that_was_or_will_be_read_under_it_and_a_document_that_one_alone(world: Read) -> None:
    first, second = name("a.txt", "one page"), name("a.txt", "one page, changed")
    world.retract(document=f"{PREFIX}{first}")
    assert world.left_out == {f"{PREFIX}{first}"}
    (world.pages / "a.txt").write_text("one page, changed")
    changed = world.ingest("changed")
    assert (world.retracted(world.a), world.retracted(changed)) == ({first}, set())
    world.retract(source="a.txt")
    assert world.left_out == {f"{PREFIX}{first}", f"{PREFIX}{second}"}
    assert (world.retracted(world.a), world.retracted(changed)) == ({first}, {second})
    (world.pages / "a.txt").write_text("one page, changed again")
    assert world.retracted(world.ingest("later")) == {name("a.txt", "one page, changed again")}


WRITTEN = (
    "https://a.example/B",
    "https://A.example/B",
    "HTTPS://a.example:443/./B#part",
    "https://a.example/%42?sid=1",
)


@pytest.mark.parametrize("asked", WRITTEN)
def test_a_url_means_its_page_however_it_is_written_and_was_written_where_it_was_read(world: Read, asked: str) -> None:
    records = [json.dumps({"text": "a record", "url": url}) for url in (*WRITTEN, "https://a.example/b")]
    (world.pages / "d.jsonl").write_text("\n".join(records))
    made = world.ingest("written")
    world.retract(source=asked)
    assert world.retracted(made) == {name(url, "a record") for url in WRITTEN}
    with pytest.raises(NotFound):
        world.retract(source="https://a.example/c")


LABEL = st.from_regex(r"[a-z0-9-]{1,70}", fullmatch=True)
PART = st.from_regex(r"[A-Za-z0-9._~%-]{0,9}", fullmatch=True)


@given(
    labels=st.lists(LABEL, min_size=1, max_size=4), path=st.lists(PART, max_size=4), port=st.sampled_from(["", ":80"])
)
@example(labels=["xn--mnchen-3ya", "de"], path=["a"], port="")
@example(labels=["a", "example"], path=["a", "..", "b"], port="")
def test_what_needs_not_be_taken_apart_is_written_as_a_crawl_writes_it(
    labels: list[str], path: list[str], port: str
) -> None:
    url = "/".join([f"http://{'.'.join(labels)}{port}", *path])
    try:
        assert form(url) == canonical(url)
    except NotAPage:
        assert form(url) == url


def test_what_a_dedup_kept_is_asked_for_without_what_it_left_out(world: Read) -> None:
    read = IngestBody.read(Manifest.decode(world.bench.blobs.get(world.a.result.manifest_key), expected=Kind.INGEST))
    kept, dropped = name("a.txt", "one page"), name("b.txt", "another page")
    file = world.pages.parent / "clusters.parquet"
    row = ([dropped], [kept], ["near"], [0.9])
    duplicates.write([pa.record_batch([pa.array(each) for each in row], schema=duplicates.schema())], file)
    body = DedupBody(
        shards=read.shards,
        decisions="",
        clusters=put_file(world.bench.blobs, "dedup/clusters", file),
        documents=2,
        duplicates=1,
        near_duplicates=1,
        cluster_count=1,
        rejected=(),
        rejections="",
    )
    dedup = publish(world.bench.blobs, "dedup", body.manifest(producer="test"), data_bytes=0)
    assert world.retracted(dedup) == set()
    world.retract(source="b.txt")
    assert (world.retracted(dedup), world.retracted(world.a)) == (set(), {dropped})
    world.retract(source="a.txt")
    assert world.retracted(dedup) == {kept}
    world.bench.blobs.delete(body.clusters)
    with pytest.raises(Refused, match=f"{body.clusters} is gone"):
        world.find(dedup)


def test_what_is_retracted_twice_is_one_retraction_with_its_first_reason(world: Read) -> None:
    first = world.retract(source="a.txt", request_id="1")
    assert not world.already
    assert world.retract(source="a.txt", request_id="2", reason="another") == first
    assert world.already
    assert list(world.api.ListRetractions(ListRequest(), CALL).retractions) == [first]
    assert world.api.GetRetraction(GetRequest(name=first.name), CALL) == first
    with pytest.raises(AlreadyExists):
        world.retract(source="b.txt", request_id="1")


def test_a_retraction_is_repeated_after_what_it_named_is_gone(world: Read) -> None:
    first = world.retract(source="a.txt")
    world.bench.blobs.delete(world.a.result.manifest_key)
    assert (world.retract(source="a.txt"), world.already, world.left_out) == (first, True, set())
    with pytest.raises(NotFound):
        world.retract(source="b.txt")


def test_what_is_withdrawn_is_used_again_until_it_is_retracted_again(world: Read) -> None:
    made = world.retract(source="a.txt")
    withdraw = WithdrawRetractionRequest(name=made.name)
    for _ in range(2):
        withdrawn = world.api.WithdrawRetraction(withdraw, CALL)
        assert (withdrawn.withdrawn, withdrawn.revision) == (True, 2)
        assert world.retracted(world.a) == set()
    again = world.retract(source="a.txt")
    assert (again.name, again.withdrawn, again.revision) == (made.name, False, 3)
    assert not world.already
    assert world.retracted(world.a) == {name("a.txt", "one page")}
    with pytest.raises(NotFound):
        world.api.WithdrawRetraction(WithdrawRetractionRequest(name="retractions/none"), CALL)


def test_what_would_be_retracted_is_said_without_an_effect(world: Read) -> None:
    made = world.retract(source="a.txt", validate_only=True)
    assert world.left_out == {f"{PREFIX}{name('a.txt', 'one page')}"}
    with pytest.raises(NotFound):
        world.api.GetRetraction(GetRequest(name=made.name), CALL)
    assert world.find(world.a.result).retracted_key == ""
    kept = world.retract(source="a.txt")
    validated = WithdrawRetractionRequest(name=kept.name, validate_only=True)
    assert world.api.WithdrawRetraction(validated, CALL).withdrawn
    assert world.api.GetRetraction(GetRequest(name=kept.name), CALL) == kept


@pytest.mark.parametrize("unknown", [{"source": "nobody.txt"}, {"document": f"{PREFIX}{'0' * 64}"}])
def test_what_was_never_read_is_not_found_and_not_recorded(world: Read, unknown: dict[str, str]) -> None:
    with pytest.raises(NotFound, match=next(iter(unknown.values()))):
        world.retract(**unknown)
    assert not world.api.ListRetractions(ListRequest(), CALL).retractions


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, r"spec\.source.*a source or a document"),
        ({"source": "a.txt", "document": f"{PREFIX}{'0' * 64}"}, r"spec\.source.*one alone"),
        ({"document": "a.txt"}, r"spec\.document.*64 digits"),
        ({"source": "x" * 5000}, r"spec\.source"),
        ({"source": "a.txt", "reason": "x" * 1001}, r"spec\.reason"),
    ],
)
def test_what_names_nothing_is_refused_by_field(world: Read, spec: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidField, match=field):
        world.retract(**spec)


def test_a_filter_leaves_out_what_is_retracted_and_the_same_documents_make_the_same_filter(world: Read) -> None:
    assert world.filter("all", world.a, "").documents == 3
    world.retract(source="a.txt")
    by_source = world.find(world.a.result)
    made = world.filter("retracted", world.a, by_source.retracted_key)
    assert (made.state, made.documents) == (STATE_DONE, 2)
    assert [(each.rule, each.documents) for each in made.rules] == [("retracted", 1)]
    world.retract(document=f"{PREFIX}{name('a.txt', 'one page')}")
    assert world.find(world.a.result) == by_source


def test_a_caller_waits_as_long_as_it_says_and_finds_what_was_looked_at_remembered(world: Read) -> None:
    world.retract(source="a.txt")
    result = world.a.result
    asked = FindRetractedRequest(manifest_key=result.manifest_key, content_digest=result.content_digest)
    with pytest.raises(DeadlineExceeded, match="ask again"):
        world.api.FindRetracted(asked, replace(CALL, deadline_seconds=0.0))
    known = world.retracted(world.a)
    for stored in list(world.bench.blobs.list("ingest/document-shards/")):
        world.bench.blobs.delete(stored.key)
    assert world.retracted(world.a) == known


def test_what_is_read_elsewhere_is_retracted_where_a_shard_is_gone(world: Read) -> None:
    (gone,) = world.bench.blobs.list("ingest/document-shards/")
    (world.pages / "b.txt").unlink()
    later = world.ingest("later")
    world.bench.blobs.delete(gone.key)
    world.retract(source="a.txt")
    assert world.retracted(later) == {name("a.txt", "one page")}
    with pytest.raises(Refused, match=f"{gone.key} is gone"):
        world.retract(source="b.txt")


def test_a_shard_that_cannot_be_read_is_named(world: Read) -> None:
    (stored,) = world.bench.blobs.list("ingest/document-shards/")
    world.bench.blobs.delete(stored.key)
    with pytest.raises(Refused, match=f"{stored.key} is gone"):
        world.retract(source="a.txt")
    world.bench.blobs.put_if_absent(stored.key, b"no shard at all")
    with pytest.raises(Refused, match=f"{stored.key} is damaged"):
        world.retract(source="a.txt")
