"""Reach: what documents had a part in, run by run, step by step, blob by blob."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import RecordBatch

from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.work.work import publish, put_file
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.ingest.v1 import Crawl, CrawlSpec, Ingest
from tutti.contracts.lineage.v1 import ShowDocumentRequest, ShowReachRequest
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import Job as TrainingJob
from tutti.contracts.scheduler.v1 import JobSpec, MixedDataset
from tutti.contracts.tokenization.v1 import Index, Tokenization, TokenizationSpec
from tutti.corpus.documents import decisions, duplicates
from tutti.corpus.documents.stages import DedupBody
from tutti.corpus.spans.building import IndexInfo
from tutti.corpus.spans.manifest import IndexBody
from tutti.lineage.branches_test import CALL, LINES, Job
from tutti.lineage.graph import dataset_name
from tutti.lineage.service_test import DIGEST, World, page

TOKENIZER = f"tokenizers/{'1' * 64}"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def names(*sources: str) -> list[str]:
    return [f"documents/{page(source).doc_id}" for source in sources]


def test_of_every_run_it_is_told_what_became_of_the_documents(world: World, tmp_path: Path) -> None:
    data, read, shards = world.ingested(("a", "b"), ("c", "d", "e"))
    world.blobs.put_if_absent(read.result.manifest_key, data)
    world.admit(read)
    world.admit(Run(name="runs/begun", stages=[Stage(name="ingest", resource="ingests/a")]))
    ids = {source: page(source).doc_id for source in "abcde"}
    gone = [{"doc_id": ids["a"], "rule": "c4"}, {"doc_id": ids["b"], "rule": "retracted"}]
    rows = [{**row, "value": None, "threshold": None, "language": "en"} for row in gone]
    rows.sort(key=lambda row: str(row["doc_id"]))
    decisions.write([RecordBatch.from_pylist(rows, schema=decisions.schema())], tmp_path / "decisions.parquet")
    row = {"doc_id": ids["c"], "kept": ids["d"], "how": "near", "jaccard": 0.875}
    duplicates.write([RecordBatch.from_pylist([row], schema=duplicates.schema())], tmp_path / "clusters.parquet")
    chosen, clusters = (
        put_file(world.blobs, f"dedup/{name}", tmp_path / f"{name}.parquet") for name in ("decisions", "clusters")
    )
    body = DedupBody(tuple(shards), chosen, clusters, 2, 1, 1, 1, (), "ingest/rejections/none.json")
    result = publish(world.blobs, "dedup", body.manifest(producer="test"), data_bytes=0)
    world.admit(Dedup(name="dedups/a", result=result))
    resources = {"crawl": "crawls/c", "ingest": "ingests/a", "dedup": "dedups/a"}
    stages = [Stage(name=name, resource=resource) for name, resource in resources.items()]
    for crawl, since in (("crawls/a", ""), ("crawls/b", "crawls/a"), ("crawls/c", "crawls/b")):
        world.admit(Crawl(name=crawl, spec=CrawlSpec(since=since)))
    world.admit(Run(name="runs/whole", stages=stages))
    world.settle()
    reach = world.api.ShowReach(ShowReachRequest(documents=names(*"abcde")), CALL)
    (run,) = reach.runs
    assert (run.run, run.kept, run.duplicates, run.rejected, run.retracted) == ("runs/whole", 2, 1, 1, 1)
    assert {(each.source, *each.ingests) for each in reach.documents} == {(source, "ingests/a") for source in "abcde"}
    assert list(reach.crawls) == ["crawls/a", "crawls/b", "crawls/c"], "in whose archives pages may be"
    assert list(reach.blobs) == sorted(shard.blob for shard in shards)
    assert [(each.blob, list(each.runs)) for each in reach.held] == [
        (blob, ["runs/begun", "runs/whole"]) for blob in reach.blobs
    ]
    one = world.api.ShowReach(ShowReachRequest(documents=names("b")), CALL)
    assert [(each.kept, each.retracted) for each in one.runs] == [(0, 1)]
    assert len(one.blobs) == 1
    cut = world.api.ShowReach(ShowReachRequest(documents=names(*"abcde"), limit=1), CALL)
    assert (len(cut.documents), len(cut.blobs), cut.truncated) == (1, 1, True)


def test_an_evaluation_text_had_a_part_in_no_run_and_stays_in_use(world: World, tmp_path: Path) -> None:
    shards = {}
    for name in ("a", "e"):
        data, read, shards[name] = world.ingested((name,))
        world.blobs.put_if_absent(read.result.manifest_key, data)
        world.admit(Ingest(name=f"ingests/{name}", result=read.result))
    duplicates.write([], tmp_path / "clusters.parquet")
    world.deduplicated(shards["a"], put_file(world.blobs, "dedup/clusters", tmp_path / "clusters.parquet"))
    resources = {"ingest": "ingests/a", "evaluation": "ingests/e", "dedup": "dedups/a"}
    run = Run(name="runs/r", stages=[Stage(name=name, resource=resource) for name, resource in resources.items()])
    world.admit(run)
    world.host.pipeline.runs[run.name] = run
    reach = world.api.ShowReach(ShowReachRequest(documents=names("e")), CALL)
    assert list(reach.runs) == []
    assert [list(each.runs) for each in reach.held] == [["runs/r"]]
    (both,) = world.api.ShowReach(ShowReachRequest(documents=names("a", "e")), CALL).runs
    assert (both.kept, both.duplicates, both.rejected) == (1, 0, 0)
    fates = [world.api.ShowDocument(ShowDocumentRequest(document=each), CALL).fate for each in names("a", "e")]
    assert fates == ["", "an evaluation text; it stays in use until it is taken out of the folder"]


@pytest.mark.parametrize("parts", [(), (2, 3)], ids=["one-dataset", "a-mixture"])
def test_steps_and_checkpoints_are_those_that_a_replay_finds(parts: tuple[int, ...], tmp_path: Path) -> None:
    world = World(tmp_path)
    job = Job.make(world, *parts)
    checkpoints = list(job.checkpoints())
    for checkpoint in checkpoints:
        world.admit(checkpoint)
    replayed = job.replay()
    for name, given in zip(map(dataset_name, job.holds), ("", TOKENIZER), strict=False):
        spec = TokenizationSpec(tokenizer=given)
        world.admit(Tokenization(name=f"tokenizations/{name[9:19]}", spec=spec, dataset=name, tokenizer=TOKENIZER))
    own_digest, *others = job.holds
    mixed = [MixedDataset(digest=digest) for digest in others]
    world.admit(TrainingJob(name="jobs/j", spec=JobSpec(dataset_digest=own_digest, mixed=mixed)))
    world.admit(Run(name="runs/trained", stages=[Stage(name="train", resource="jobs/j")]))
    info = IndexInfo(DIGEST, DIGEST, 1, 2, 1, 1)
    own = [(name, f"own-{name[9:19]}") for name in map(dataset_name, job.holds)]
    for name, blob in (*own, ("datasets/another", "another")):
        made = IndexBody(blob, info).manifest(dataset=name, producer="test")
        world.admit(Index(name=f"indexes/{blob}", result=publish(world.blobs, "indexes", made, data_bytes=1)))
    for document in job.names:
        reach = world.api.ShowReach(ShowReachRequest(documents=[f"documents/{document}"]), CALL)
        told = {(each.line, step) for each in reach.lines for step in each.steps}
        assert told == {(line, step) for line, step, *_ in replayed[document]}
        assert all(each.step_count == len(each.steps) for each in reach.lines)
        assert {each.checkpoint for each in reach.checkpoints} == {each.name for each in checkpoints}
        read = {each.checkpoint for each in reach.checkpoints if each.read}
        assert read == {each.name for each in checkpoints if came_before(each.name, told)}
        (dataset,) = reach.datasets
        assert bool(dataset.tokenizer) is (dataset.dataset == own[0][0]), "the second was given that of the first"
        assert (dataset.train, dataset.validation) == (1, 0)
        users = {each.blob: list(each.runs) for each in reach.held}
        assert all(users[blob] == ["runs/trained"] for blob in users if blob.startswith("tokenization/token-shards/"))
        assert {blob for blob in reach.blobs if "/" not in blob} == {blob for of, blob in own if of == dataset.dataset}
        assert sum(blob.startswith("tokenization/token-shards/") for blob in reach.blobs) >= 1
    world.close()


def came_before(checkpoint: str, steps: set[tuple[int, int]]) -> bool:
    """Whether one of these (line, step) lies on the way to a checkpoint."""
    _, _, line, step = checkpoint.split("/")
    at, until = int(line), int(step)
    while True:
        parent, from_step, _ = LINES[at]
        if any(of == at and from_step < each <= until for of, each in steps):
            return True
        if not from_step:
            return False
        at, until = parent, from_step


def test_who_names_nobody_or_too_many_is_refused(world: World) -> None:
    with pytest.raises(InvalidField, match="documents"):
        world.api.ShowReach(ShowReachRequest(), CALL)
    with pytest.raises(InvalidField, match="at most 10000"):
        world.api.ShowReach(ShowReachRequest(documents=["documents/a"] * 10_001), CALL)
    with pytest.raises(NotFound, match="documents/nobody"):
        world.api.ShowReach(ShowReachRequest(documents=["documents/nobody"]), CALL)
