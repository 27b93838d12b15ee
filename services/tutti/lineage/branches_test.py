"""Over a branch every step is told under the line that made it, once, as a slow replay of the job's history has it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tutti.chassis.errors import InvalidField, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.checkpoints import example_test as example
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.manifest import CheckpointBody, build_manifest
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.writer import Snapshot, describe
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint
from tutti.contracts.lineage.v1 import (
    DIRECTION_DOWN,
    DIRECTION_UP,
    TraceDocumentRequest,
    TraceRequest,
    TraceStepRequest,
)
from tutti.contracts.lineage.v1 import Sighting as Told
from tutti.contracts.tokenization.v1 import Dataset
from tutti.corpus.tokens.dataset import DatasetBody, ShardEntry, Split
from tutti.corpus.tokens.ledger import Ledger, LedgerReading
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.lineage.service_test import World, page
from tutti.lineage.sightings_test import CONTEXT, shards
from tutti.model.plan import Shape
from tutti.model.results import Scalars
from tutti.model.training import WeightedDataset

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)
SOURCES, LENGTHS = ("a", "b", "c", "d", "e"), (3, 20, 1, 30, 12)
# Each line after the parent line and the step that it branches after, with the steps of its checkpoints.
LINES = {0: (0, 0, (5, 10)), 1: (0, 5, (10, 15)), 2: (1, 10, (15,)), 3: (0, 0, (5,))}
Place = tuple[int, int, int, int, int]


@dataclass
class Job:
    """A job over small datasets whose lines are those above; `holds` are the documents of each, in their order."""

    world: World
    ledger: Ledger
    holds: dict[str, list[str]]

    @classmethod
    def make(cls, world: World, *parts: int) -> "Job":
        """Over one dataset of all documents, or over several that hold so many each and are read by these weights."""
        data, ingest, _ = world.ingested(SOURCES)
        world.blobs.put_if_absent(ingest.result.manifest_key, data)
        world.admit(ingest)
        shares, holds, first = [], {}, 0
        for count in parts or (len(SOURCES),):
            end = first + count
            names = [page(source).doc_id for source in SOURCES[first:end]]
            version, sequences = packed(world, names, LENGTHS[first:end])
            first = end
            shares.append(DatasetShare(version, sequences, count, 0))
            holds[version] = names
        return cls(world, Ledger((Span(0, tuple(shares), seed=1, leaves=2, rows_per_leaf=1),)), holds)

    @property
    def names(self) -> list[str]:
        return [name for names in self.holds.values() for name in names]

    def checkpoints(
        self, lines: Mapping[int, tuple[int, int, Sequence[int]]] = LINES, *, name: str = "j"
    ) -> Iterator[Checkpoint]:
        for line, (parent_line, from_step, steps) in lines.items():
            parent = f"checkpoints/j/{parent_line}/{from_step}" if from_step else ""
            for step in steps:
                body = self.body(line, step, parent, name)
                self.world.blobs.put_if_absent(body.manifest_key, body.manifest(producer="test").encode())
                yield Checkpoint(
                    name=body.name,
                    job=f"jobs/{name}",
                    parent=parent,
                    state=CHECKPOINT_STATE_COMMITTED,
                    manifest_key=body.manifest_key,
                    state_digest=body.state_digest,
                )
                parent = body.name

    def body(self, line: int, step: int, parent: str, job: str) -> CheckpointBody:
        shares = [WeightedDataset(each.dataset_version, each.weight) for each in self.ledger.spans[0].datasets]
        mixture = tuple(shares) if len(shares) > 1 else ()
        training, shape = replace(example.training(), dataset=shares[0].dataset, mixture=mixture), Shape(1)
        scalars = StateScalars(Scalars(step), 2 * step, self.ledger)
        snapshot = Snapshot(ShardName(job, line, step, 1, 0), "nodes/a", shape, training, example.KERNEL, scalars)
        report = describe(example.buffer(training, shape, 0, step), snapshot)
        return build_manifest([report], training=training, parent=parent, verified_by=["nodes/b"])

    def replay(self) -> dict[str, set[Place]]:
        """Of every document (line, step, leaf, row, sample), token by token, step by step of every line."""
        lengths = dict(zip((page(source).doc_id for source in SOURCES), LENGTHS, strict=True))
        owners = [np.repeat(names, [lengths[name] for name in names]) for names in self.holds.values()]
        found: dict[str, set[Place]] = {name: set() for name in self.names}
        for line, (_, from_step, steps) in LINES.items():
            for step in range(from_step + 1, max(steps) + 1):
                for leaf in range(2):
                    ids = self.ledger.samples(step - 1, leaf)
                    (sample,), owner = ids.samples.tolist(), owners[ids.datasets[0]]
                    for document in set(owner[sample * CONTEXT : (sample + 1) * CONTEXT + 1].tolist()):
                        found[document].add((line, step, leaf, 0, sample))
        return found


def packed(world: World, names: list[str], lengths: tuple[int, ...]) -> tuple[str, int]:
    """A dataset of these documents: its version, and how many sequences it has."""
    entries = []
    for content, info in shards(names, lengths):
        entries.append(ShardEntry.of(info, blob=f"tokenization/token-shards/{info.bytes_digest[7:]}.bin"))
        world.blobs.put_if_absent(entries[-1].blob, content)
    sequences = sum(entry.sequences for entry in entries)
    train = Split(tuple(entries), len(names), sequences, sequences * CONTEXT, sum(lengths))
    body = DatasetBody("blake3:" + "1" * 64, 300, 299, CONTEXT, train, Split((), 0, 0, 0, 0))
    manifest = body.manifest(parents=(), producer="test")
    version, key = manifest.content_digest, f"tokenization/manifests/{manifest.content_digest[7:]}.json"
    world.blobs.put_if_absent(key, manifest.encode())
    world.admit(Dataset(name=f"datasets/{version[7:]}", manifest_key=key, content_digest=version))
    return version, sequences


def place(told: Told) -> Place:
    return told.line, told.step, told.leaf, told.row, told.sample


@pytest.fixture(params=[(), (2, 3)], ids=["one-dataset", "a-mixture"])
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    world = World(tmp_path)
    yield Job.make(world, *request.param)
    world.close()


def test_every_step_is_told_once_under_the_line_that_made_it(job: Job) -> None:
    for checkpoint in job.checkpoints():
        job.world.admit(checkpoint)
    expected = job.replay()
    for document in job.names:
        answer = job.world.api.TraceDocument(TraceDocumentRequest(document=document), CALL)
        assert [place(told) for told in answer.sightings] == sorted(expected[document])
        (version,) = (version for version, names in job.holds.items() if document in names)
        assert {told.dataset for told in answer.sightings} == {f"datasets/{version[7:]}"}
        limit = len(expected[document]) - 1
        cut = job.world.api.TraceDocument(TraceDocumentRequest(document=document, limit=limit), CALL)
        assert cut.truncated
        assert list(cut.sightings) == list(answer.sightings)[:limit]
    # On line 2 as it reads back: its own steps, those of line 1 before them, those of line 0 before these.
    for step, line in ((3, 0), (5, 0), (6, 1), (10, 1), (11, 2), (15, 2)):
        read = job.world.api.TraceStep(TraceStepRequest(job="jobs/j", line=2, step=step), CALL)
        seen = {(told.document.removeprefix("documents/"), place(told)) for told in read.sightings}
        assert seen == {(name, at) for name, places in expected.items() for at in places if at[:2] == (line, step)}


def test_a_step_before_a_job_began_is_told_under_the_job_that_it_continues(job: Job) -> None:
    for checkpoint in job.checkpoints():
        job.world.admit(checkpoint)
    expected = job.replay()
    for checkpoint in job.checkpoints({0: (1, 10, (12, 15))}, name="k"):  # from checkpoints/j/1/10
        job.world.admit(checkpoint)
    for step, maker, line in ((3, "jobs/j", 0), (6, "jobs/j", 1), (11, "jobs/k", 0), (15, "jobs/k", 0)):
        read = job.world.api.TraceStep(TraceStepRequest(job="jobs/k", line=0, step=step), CALL)
        assert {(told.job, told.line) for told in read.sightings} == {(maker, line)}
    for document in job.names:
        told = list(job.world.api.TraceDocument(TraceDocumentRequest(document=document), CALL).sightings)
        assert [place(each) for each in told if each.job == "jobs/j"] == sorted(expected[document])
        own = sorted((0, *at[1:]) for at in expected[document] if at[0] == 1 and at[1] > 10)
        assert [place(each) for each in told if each.job == "jobs/k"] == own


@pytest.mark.parametrize("until", [4, 5, 9, 12, 20])
def test_every_reading_up_to_a_step_is_told_also_behind_the_last_checkpoint_before_it(job: Job, until: int) -> None:
    for checkpoint in job.checkpoints():
        job.world.admit(checkpoint)
    expected = job.replay()
    for document in job.names:
        asked = TraceDocumentRequest(document=document, until_step=until)
        told = [place(each) for each in job.world.api.TraceDocument(asked, CALL).sightings]
        assert told == sorted(at for at in expected[document] if at[1] <= until)


def test_many_epochs_of_a_toy_dataset_cost_what_was_asked_for(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    for checkpoint in job.checkpoints({0: (0, 0, range(100, 3001, 100)), 1: (0, 2000, range(2100, 3001, 100))}):
        job.world.admit(checkpoint)
    every, computed = Ledger.readings, 0

    def counted(*args: Any, **kwargs: Any) -> Iterator[LedgerReading]:
        nonlocal computed
        for reading in every(*args, **kwargs):
            computed += 1
            yield reading

    monkeypatch.setattr(Ledger, "readings", counted)
    document = job.names[3]
    answer = job.world.api.TraceDocument(TraceDocumentRequest(document=document, limit=10), CALL)
    assert len(answer.sightings) == 10
    assert answer.truncated
    down = job.world.api.Trace(TraceRequest(name=f"documents/{document}", direction=DIRECTION_DOWN), CALL)
    seen = [f"checkpoints/j/0/{step}" for step in range(100, 3001, 100)]
    seen += [f"checkpoints/j/1/{step}" for step in range(2100, 3001, 100)]
    assert list(answer.checkpoints) == seen
    assert [vertex.name for vertex in down.vertices if vertex.kind == "checkpoint"] == seen
    assert computed < 200  # of some ten thousand on each line


def test_a_branch_whose_root_is_not_folded_yet_is_waited_for(job: Job) -> None:
    found = {checkpoint.name: checkpoint for checkpoint in job.checkpoints()}
    job.world.admit(found["checkpoints/j/1/10"])
    with pytest.raises(Unavailable, match="checkpoints/j/0/5, which checkpoints/j/1/10 descends from"):
        job.world.api.TraceDocument(TraceDocumentRequest(document=job.names[1]), CALL)
    job.world.admit(found["checkpoints/j/0/5"])
    lines = {
        told.line for told in job.world.api.TraceDocument(TraceDocumentRequest(document=job.names[1]), CALL).sightings
    }
    assert lines == {0, 1}


def test_a_walk_without_a_direction_is_refused(job: Job) -> None:
    with pytest.raises(InvalidField, match="direction: expected DIRECTION_UP or DIRECTION_DOWN"):
        job.world.api.Trace(TraceRequest(name="jobs/x"), CALL)


def test_more_than_an_answer_should_hold_is_refused(job: Job) -> None:
    with pytest.raises(InvalidField, match="at most 10000"):
        job.world.api.Trace(TraceRequest(name="jobs/x", direction=DIRECTION_UP, limit=10_001), CALL)
    with pytest.raises(InvalidField, match="at most 100000"):
        job.world.api.TraceDocument(TraceDocumentRequest(document="x", limit=100_001), CALL)
