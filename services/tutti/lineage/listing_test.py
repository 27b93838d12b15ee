"""What became of pages: of those out of which repeated lines were cut, and of copies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import RecordBatch

from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.work.work import publish, put_file, put_named
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, STATE_PENDING, STATE_RUNNING, State
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.ingest.v1 import Ingest
from tutti.contracts.lineage.v1 import ListDocumentsRequest, ListDocumentsResponse
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.corpus.documents import cuts, decisions, duplicates
from tutti.corpus.documents.stages import DedupBody
from tutti.lineage.branches_test import CALL
from tutti.lineage.service_test import World, page


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_of_a_page_it_is_told_what_was_cut_out_that_too_little_was_left_and_of_what_it_is_a_copy(
    world: World, tmp_path: Path
) -> None:
    data, read, shards = world.ingested(("a", "b", "c"), ("d",))
    world.blobs.put_if_absent(read.result.manifest_key, data)
    world.admit(read)
    whole, cut, short = (page(source).doc_id for source in "abc")
    rows = [{"doc_id": cut, "begin": 0, "end": 1200}, {"doc_id": cut, "begin": 1300, "end": 1334}]
    cuts.write([RecordBatch.from_pylist(rows, schema=cuts.schema())], tmp_path / "cuts.parquet")
    decisions.write(decisions.together(decisions.short([(short, 3)], 100)), tmp_path / "decisions.parquet")
    row = {"doc_id": page("d").doc_id, "kept": whole, "how": "near", "jaccard": 0.875}
    duplicates.write([RecordBatch.from_pylist([row], schema=duplicates.schema())], tmp_path / "clusters.parquet")
    names = ("decisions", "clusters", "cuts")
    told, clusters, ranges = (put_file(world.blobs, f"dedup/{name}", tmp_path / f"{name}.parquet") for name in names)
    body = DedupBody(
        tuple(shards),
        told,
        clusters,
        documents=2,
        duplicates=1,
        near_duplicates=1,
        cluster_count=1,
        rejected=(),
        rejections=put_named(world.blobs, "ingest/rejections", b"[]", ".json"),
        cut_documents=1,
        cut_units=2,
        cut_bytes=1234,
        cuts=ranges,
    )
    result = publish(world.blobs, "dedup", body.manifest(producer="test"), data_bytes=0)
    world.admit(Dedup(name="dedups/a", result=result))
    stages = [Stage(name="ingest", resource="ingests/a"), Stage(name="dedup", resource="dedups/a")]
    world.admit(Run(name="runs/a", stages=stages))
    world.settle()
    listed = world.api.ListDocuments(ListDocumentsRequest(run="runs/a"), CALL)
    assert [(each.source, each.what, each.detail) for each in listed.documents] == [
        ("a", "kept", ""),
        ("b", "kept", "without 1,234 bytes that were cut out"),
        ("c", "rejected/repeated_lines", "value 3, threshold 100"),
        ("d", "duplicate/near", f"of documents/{whole}, similarity 0.88"),
    ]
    assert [each.stays for each in listed.documents] == ["", "", "", "a"]
    assert world.documents.fate(short) == "rejected by the rule repeated_lines, value 3, threshold 100"
    assert (world.documents.fate(cut), world.documents.fate(whole)) == ("", "")


ODD = "a\nb.txt"  # files may be named so
REJECTED = [{"path": "d", "reason": reason, "detail": "a record"} for reason in ("empty", "not_text", "too_long")]


def listed(world: World, **asked: Any) -> ListDocumentsResponse:
    return world.api.ListDocuments(ListDocumentsRequest(run="runs/a", **asked), CALL)


@pytest.fixture
def read(world: World) -> World:
    """A run has read pages; of one file several records were rejected."""
    data, made, _ = world.ingested(("a", ODD, "c"), rejections=REJECTED)
    world.blobs.put_if_absent(made.result.manifest_key, data)
    world.admit(made)
    world.admit(Run(name="runs/a", stages=[Stage(name="ingest", resource="ingests/a")]))
    return world


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_page_by_page_every_page_is_listed_once_whatever_its_name(read: World, size: int) -> None:
    found, token = list[tuple[str, str]](), ""
    for _ in range(6):
        page = listed(read, page_size=size, page_token=token)
        found += [(each.source, each.what) for each in page.documents]
        if not (token := page.next_page_token):
            break
    kept = [(source, "kept") for source in ("a", ODD, "c")]
    assert found == [*kept, *(("d", f"rejected/{each['reason']}") for each in REJECTED)]


def test_what_is_nearly_the_same_is_listed_with_what_is_and_with_what_is_near(read: World, tmp_path: Path) -> None:
    hows = ("contaminated", "contaminated-near", "earlier", "earlier-near", "near")
    _, _, shards = read.ingested(hows, ("kept",))
    rows = [{"doc_id": page(how).doc_id, "kept": page("kept").doc_id, "how": how, "jaccard": 0.9} for how in hows]
    rows.sort(key=lambda row: str(row["doc_id"]))
    duplicates.write([RecordBatch.from_pylist(rows, schema=duplicates.schema())], tmp_path / "clusters.parquet")
    rejections = put_named(read.blobs, "ingest/rejections", b"[]", ".json")
    clusters = put_file(read.blobs, "dedup/clusters", tmp_path / "clusters.parquet")
    body = DedupBody(tuple(shards), "", clusters, 1, 3, 2, 1, (), rejections)
    read.admit(
        Dedup(name="dedups/a", result=publish(read.blobs, "dedup", body.manifest(producer="test"), data_bytes=0))
    )
    read.admit(Run(name="runs/a", stages=[Stage(name="dedup", resource="dedups/a")]))
    expected: dict[str, tuple[str, ...]] = {
        "rejected/contaminated": hows[:2],
        "rejected/contaminated-near": hows[1:2],
        "duplicate": hows[2:],
        "duplicate/earlier": hows[2:4],
        "duplicate/earlier-near": hows[3:4],
        "duplicate/near": hows[3:],
        "duplicate/exact": (),
    }
    found = {what: tuple(each.source for each in listed(read, what=what).documents) for what in expected}
    assert found == expected


def test_a_list_goes_on_as_it_began_though_the_run_comes_further(read: World, tmp_path: Path) -> None:
    begun = listed(read, what="kept", page_size=1)
    _, _, shards = read.ingested(("a", ODD, "c"))
    row = {"doc_id": page("c").doc_id, "kept": page("a").doc_id, "how": "exact", "jaccard": 1.0}
    duplicates.write([RecordBatch.from_pylist([row], schema=duplicates.schema())], tmp_path / "clusters.parquet")
    rejections = put_named(read.blobs, "ingest/rejections", b"[]", ".json")
    clusters = put_file(read.blobs, "dedup/clusters", tmp_path / "clusters.parquet")
    body = DedupBody(tuple(shards), "", clusters, 2, 1, 0, 1, (), rejections)
    read.admit(
        Dedup(name="dedups/a", result=publish(read.blobs, "dedup", body.manifest(producer="test"), data_bytes=0))
    )
    stages = [Stage(name="ingest", resource="ingests/a"), Stage(name="dedup", resource="dedups/a")]
    read.admit(Run(name="runs/a", stages=stages))
    rest = listed(read, what="kept", page_token=begun.next_page_token)
    assert [each.source for each in (*begun.documents, *rest.documents)] == ["a", ODD, "c"]
    assert [each.source for each in listed(read, what="kept").documents] == ["a", ODD]


def test_a_token_of_another_list_is_refused(read: World) -> None:
    token = listed(read, page_size=1).next_page_token
    read.admit(Run(name="runs/b", stages=[Stage(name="ingest", resource="ingests/b")]))
    data, made, _ = read.ingested(("z",))
    read.blobs.put_if_absent(made.result.manifest_key, data)
    read.admit(Ingest(name="ingests/b", result=made.result))
    for asked in ({"what": "kept"}, {"source": "a"}, {"page_token": "a\nb"}, {"run": "runs/b"}):
        fields: dict[str, Any] = {"run": "runs/a", "page_token": token, **asked}
        request = ListDocumentsRequest(**fields)
        with pytest.raises(InvalidField, match="page_token: expected next_page_token of the same run"):
            read.api.ListDocuments(request, CALL)


def stages(**states: State.ValueType) -> list[Stage]:
    return [Stage(name=name, state=state) for name, state in states.items()]


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (
            Run(
                state=STATE_FAILED,
                reason="ingest: no page was read",
                stages=stages(ingest=STATE_FAILED, filter=STATE_PENDING),
            ),
            "runs/a read nothing, it failed in ingest: no page was read",
        ),
        (
            Run(state=STATE_CANCELLED, reason="cancelled", stages=stages(crawl=STATE_CANCELLED, ingest=STATE_PENDING)),
            "runs/a read nothing, it was cancelled in crawl",
        ),
        (
            Run(state=STATE_RUNNING, stages=stages(crawl=STATE_RUNNING, ingest=STATE_PENDING)),
            "runs/a has read nothing yet, it is in crawl; ask again later",
        ),
        (
            Run(state=STATE_FAILED, reason="filter: why", stages=stages(ingest=STATE_DONE, filter=STATE_FAILED)),
            "what runs/a read is not known here yet; ask again in a moment",
        ),
        (Run(state=STATE_DONE, stages=stages(ingest=STATE_DONE)), "what runs/a read is not known here yet"),
    ],
)
def test_of_a_run_that_read_nothing_it_is_said_why(world: World, run: Run, why: str) -> None:
    run.name = "runs/a"
    world.host.pipeline.runs[run.name] = run
    world.admit(run)
    with pytest.raises(Refused, match=f"^{why}") as refused:
        listed(world)
    assert refused.value.reason == "NOTHING_READ"


def test_what_is_no_run_is_not_found(world: World) -> None:
    with pytest.raises(NotFound, match="runs/a does not exist"):
        listed(world)
