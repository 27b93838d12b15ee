"""What became of pages: of those out of which repeated lines were cut, and of copies."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import RecordBatch

from tutti.chassis.work import publish, put_file, put_named
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.lineage.v1 import ListDocumentsRequest
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.corpus import cuts, decisions, duplicates
from tutti.corpus.stages import DedupBody
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
    cuts.write([RecordBatch.from_pylist(rows, schema=cuts.SCHEMA)], tmp_path / "cuts.parquet")
    decisions.write(decisions.together(decisions.short([(short, 3)], 100)), tmp_path / "decisions.parquet")
    row = {"doc_id": page("d").doc_id, "kept": whole, "how": "near", "jaccard": 0.875}
    duplicates.write([RecordBatch.from_pylist([row], schema=duplicates.SCHEMA)], tmp_path / "clusters.parquet")
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
