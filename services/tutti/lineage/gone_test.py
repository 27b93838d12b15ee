"""What lineage tells where blobs are gone: what lies elsewhere all the same, and of the rest which blob it was."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutti.chassis.errors import Refused
from tutti.contracts.ingest.v1 import Ingest
from tutti.contracts.lineage.v1 import Document, Reach, ShowDocumentRequest, ShowReachRequest, TraceRequest
from tutti.lineage.branches_test import CALL, Job
from tutti.lineage.graph import dataset_name
from tutti.lineage.service_test import World, page


class Read(World):
    """Two ingests: one of a, b and c, and one of a and c; `shards` are the blob of each."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shards = []
        for name, sources in (("ingests/a", ("a", "b", "c")), ("ingests/b", ("a", "c"))):
            data, made, (shard,) = self.ingested(sources)
            self.blobs.put_if_absent(made.result.manifest_key, data)
            self.admit(Ingest(name=name, result=made.result))
            self.shards.append(shard.blob)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Read]:
    found = Read(tmp_path)
    yield found
    found.close()


def show(world: World, document: str) -> Document:
    return world.api.ShowDocument(ShowDocumentRequest(document=document), CALL)


def reach(world: World, doc_id: str) -> Reach:
    return world.api.ShowReach(ShowReachRequest(documents=[f"documents/{doc_id}"]), CALL)


@pytest.mark.parametrize("wanted", ["a", page("a").doc_id, f"documents/{page('a').doc_id}"])
def test_a_document_is_shown_from_a_shard_that_is_there_where_another_is_gone(world: Read, wanted: str) -> None:
    gone, there = world.shards
    world.blobs.delete(gone)
    assert show(world, wanted).text == "text of a"
    up = world.api.Trace(TraceRequest(name=wanted), CALL)
    assert len([edge for edge in up.edges if edge.relation == "holds"]) == 1
    found = reach(world, page("a").doc_id)
    assert [list(each.ingests) for each in found.documents] == [["ingests/b"]]
    assert (list(found.blobs), list(found.gone)) == ([there], [gone])


def test_what_may_have_been_in_a_shard_that_is_gone_is_refused_with_its_name(world: Read) -> None:
    world.blobs.delete(world.shards[0])
    for wanted in ("b", "nobody"):
        with pytest.raises(Refused, match=f"{world.shards[0]} is gone"):
            show(world, wanted)
    with pytest.raises(Refused, match=f"{world.shards[0]} is gone"):
        reach(world, page("b").doc_id)


def test_a_text_is_shown_from_another_shard_where_one_went_after_it_was_looked_through(world: Read) -> None:
    show(world, "a")
    for key in world.shards:
        whole = world.blobs.get(key)
        world.blobs.delete(key)
        assert show(world, "a").text == "text of a"
        world.blobs.put_if_absent(key, whole)
    for key in world.shards:
        world.blobs.delete(key)
    with pytest.raises(Refused, match="is gone"):
        show(world, "a")


def test_a_dataset_whose_tokens_are_gone_is_named_and_hides_no_other(tmp_path: Path) -> None:
    world = World(tmp_path)
    job = Job.make(world, 2, 3)
    lost, there = job.holds
    shards = [each.key for each in world.blobs.list("tokenization/token-shards/")]
    mine = json.loads(world.blobs.get(f"tokenization/manifests/{lost[7:]}.json"))["body"]["train"]["shards"]
    gone = [each["blob"] for each in mine]
    assert len(gone) < len(shards)
    for blob in gone:
        world.blobs.delete(blob)
    found = reach(world, job.holds[there][0])
    assert [each.dataset for each in found.datasets] == [dataset_name(there)]
    assert list(found.gone) == gone[:1]
    assert show(world, job.holds[lost][0]).fate == ""
    world.close()
