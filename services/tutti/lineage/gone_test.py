"""What lineage tells where blobs are gone: what lies elsewhere all the same, and of the rest which blob it was."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tutti.chassis.errors import Refused
from tutti.contracts.ingest.v1 import Ingest
from tutti.contracts.lineage.v1 import (
    DIRECTION_DOWN,
    DIRECTION_UP,
    Direction,
    Document,
    Reach,
    ShowDocumentRequest,
    ShowReachRequest,
    TraceDocumentRequest,
    TraceRequest,
    TraceResponse,
    TraceStepRequest,
)
from tutti.lineage.branches_test import CALL, Job, place
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
    up = world.api.Trace(TraceRequest(name=wanted, direction=DIRECTION_UP), CALL)
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


@dataclass(frozen=True)
class Mixed:
    """A job over a mixture with its checkpoints, of which the tokens of one dataset are gone."""

    job: Job
    lost: str
    there: str
    gone: str

    @property
    def world(self) -> World:
        return self.job.world

    def walk(self, name: str, direction: Direction.ValueType) -> TraceResponse:
        return self.world.api.Trace(TraceRequest(name=name, direction=direction), CALL)


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    world = World(tmp_path)
    job = Job.make(world, 2, 3)
    for checkpoint in job.checkpoints():
        world.admit(checkpoint)
    lost, there = job.holds
    mine = json.loads(world.blobs.get(f"tokenization/manifests/{lost[7:]}.json"))["body"]["train"]["shards"]
    assert len(mine) < len(list(world.blobs.list("tokenization/token-shards/")))
    for each in mine:
        world.blobs.delete(each["blob"])
    yield Mixed(job, lost, there, mine[0]["blob"])
    world.close()


def named(answer: TraceResponse, kind: str) -> list[str]:
    return [each.name for each in answer.vertices if each.kind == kind]


def test_a_dataset_whose_tokens_are_gone_is_named_and_hides_no_other(mixed: Mixed) -> None:
    (document, *_), told = mixed.job.holds[mixed.there], mixed.job.replay()
    found = reach(mixed.world, document)
    assert [each.dataset for each in found.datasets] == [dataset_name(mixed.there)]
    assert {(each.line, step) for each in found.lines for step in each.steps} == {at[:2] for at in told[document]}
    assert list(found.gone) == [mixed.gone]
    assert show(mixed.world, mixed.job.holds[mixed.lost][0]).fate == ""


def test_what_came_of_a_page_is_told_of_the_datasets_that_are_there_and_the_others_are_named(mixed: Mixed) -> None:
    told = mixed.job.replay()
    for document in mixed.job.names:
        there = document in mixed.job.holds[mixed.there]
        seen = mixed.world.api.TraceDocument(TraceDocumentRequest(document=document), CALL)
        assert [place(each) for each in seen.sightings] == (sorted(told[document]) if there else [])
        down = mixed.walk(f"documents/{document}", DIRECTION_DOWN)
        assert named(down, "dataset") == ([dataset_name(mixed.there)] if there else [])
        assert named(down, "checkpoint") == list(seen.checkpoints)
        assert list(seen.gone) == list(down.gone) == [mixed.gone]


def test_where_a_dataset_came_from_is_told_whatever_became_of_others(mixed: Mixed) -> None:
    up = mixed.walk(dataset_name(mixed.there), DIRECTION_UP)
    assert named(up, "document") == sorted(f"documents/{name}" for name in mixed.job.holds[mixed.there])
    assert list(up.gone) == []
    lost = mixed.walk(dataset_name(mixed.lost), DIRECTION_UP)
    assert (named(lost, "document"), list(lost.gone)) == ([], [mixed.gone])


def test_of_a_checkpoint_and_a_step_is_told_what_they_read_of_the_datasets_that_are_there(mixed: Mixed) -> None:
    told = mixed.job.replay()
    there = {name: places for name, places in told.items() if name in mixed.job.holds[mixed.there]}
    up = mixed.walk("checkpoints/j/0/5", DIRECTION_UP)
    read = {f"documents/{name}" for name, places in there.items() if any(at[0] == 0 and at[1] <= 5 for at in places)}
    assert (set(named(up, "document")), list(up.gone)) == (read, [mixed.gone])
    step = mixed.world.api.TraceStep(TraceStepRequest(job="jobs/j", line=0, step=3), CALL)
    seen = {f"documents/{name}" for name, places in there.items() if any(at[:2] == (0, 3) for at in places)}
    assert ({each.document for each in step.sightings}, list(step.gone)) == (seen, [mixed.gone])


def test_where_a_document_came_from_is_told_and_which_shard_may_have_held_it_too(world: Read) -> None:
    gone, _ = world.shards
    world.blobs.delete(gone)
    assert list(world.api.Trace(TraceRequest(name="a", direction=DIRECTION_UP), CALL).gone) == [gone]
