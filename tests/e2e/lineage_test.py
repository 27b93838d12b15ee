"""For every document and checkpoint of a run, the trace equals a slow recomputation from manifests and ledgers."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import ROOT, platform, tiny, tutti
from tests.e2e.conftest import Finished
from tests.faults.processes import until
from tests.scale import SOAK, scale
from tutti.chassis.errors import NotFound
from tutti.client import Client, connect
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.lineage.v1 import DIRECTION_DOWN, DIRECTION_UP, TraceDocumentRequest, TraceRequest
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.tokenshard import TokenShard
from tutti.report.datasets import described


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory, finished: Finished) -> Path:
    """The data directory of a finished run: of the tiny recipe, or of all pages."""
    folder = tmp_path_factory.mktemp("lineage") / "data"
    limit, steps = scale(test=20, soak=300), scale(test=20, soak=400)
    if not SOAK:
        return finished.copied(folder)
    pages = Path(subprocess.check_output([sys.executable, "tools/exhibit.py"], cwd=ROOT, text=True).strip())
    more = (f"input.limit={limit}", f"train.steps={steps}", f"train.checkpoint_every={steps // 4}")
    result = tutti(*tiny(folder, pages, *more), seconds=1800)
    assert result.code == 0, result.err
    return folder


@pytest.fixture(scope="module")
def client(data_dir: Path) -> Iterator[Client]:
    with platform(data_dir, agents=0):
        made = connect(data_dir=data_dir)
        yield made
        made.close()


def manifests(data_dir: Path, owner: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((data_dir / "blobs" / owner / "manifests").glob("*.json"))]


class Slow:
    """Which steps read which documents, token by token."""

    def __init__(self, data_dir: Path) -> None:
        (dataset,) = manifests(data_dir, "tokenization")
        self.context: int = dataset["body"]["context"]
        self.spans: list[tuple[int, int, str]] = []  # first and last token of a document in the training split
        for entry in dataset["body"]["train"]["shards"]:
            shard = TokenShard(data_dir / "blobs" / entry["blob"])
            base = entry["first_sample"] * self.context
            starts = [base + int(start) for start in shard.starts]
            ends = [*starts[1:], base + shard.header.tokens_used]
            self.spans += [
                (first, end - 1, shard.doc_id(index))
                for index, (first, end) in enumerate(zip(starts, ends, strict=True))
            ]
        self.checkpoints = {
            f"checkpoints/{each['body']['job']}/{each['body']['line']}/{each['body']['step']}": each["body"]
            for each in manifests(data_dir, "committer")
        }

    def documents_of(self, sample: int) -> set[str]:
        first, last = sample * self.context, (sample + 1) * self.context
        return {document for begin, end, document in self.spans if begin <= last and end >= first}

    def read(self, checkpoint: str) -> dict[str, set[tuple[int, int, int, int]]]:
        """Document to (step, leaf, row, sample)."""
        body = self.checkpoints[checkpoint]
        ledger = Ledger.from_json(body["scalars"]["ledger"])
        found: dict[str, set[tuple[int, int, int, int]]] = defaultdict(set)
        for step in range(1, body["step"] + 1):
            for leaf in range(body["training"]["step"]["leaves"]):
                for row, sample in enumerate(ledger.samples(step - 1, leaf).samples):
                    for document in self.documents_of(int(sample)):
                        found[document].add((step, leaf, row, int(sample)))
        return found


@pytest.fixture(scope="module")
def slow(data_dir: Path) -> Slow:
    return Slow(data_dir)


def caught_up(client: Client, slow: Slow) -> bool:
    """Whether lineage has folded everything that the slow way knows."""
    if len(client.committer.ListCheckpoints(ListRequest()).checkpoints) < len(slow.checkpoints):
        return False
    answers = (client.lineage.Trace(TraceRequest(name=name, direction=DIRECTION_UP)) for name in slow.checkpoints)
    kinds = [{vertex.kind for vertex in answer.vertices} for answer in answers]
    return all({"run", "ingest", "document-shard", "dataset", "tokenizer", "document"} <= each for each in kinds)


def test_every_checkpoint_traces_up_to_the_documents_that_its_steps_read(client: Client, slow: Slow) -> None:
    until(lambda: caught_up(client, slow), seconds=30, what="lineage")
    for name in slow.checkpoints:
        answer = client.lineage.Trace(TraceRequest(name=name, direction=DIRECTION_UP, limit=10_000))
        documents = {each.name.removeprefix("documents/") for each in answer.vertices if each.kind == "document"}
        assert documents == set(slow.read(name))
        assert not answer.truncated


def test_every_document_traces_down_to_the_checkpoints_and_steps_that_read_it(
    client: Client, slow: Slow, record_property: Callable[[str, object], None]
) -> None:
    read = {name: slow.read(name) for name in slow.checkpoints}
    last = max(slow.checkpoints, key=lambda name: slow.checkpoints[name]["step"])
    documents = {document for _, _, document in slow.spans}
    sightings = sum(map(len, read[last].values()))
    counts = f"{len(documents)} documents, {len(read)} checkpoints, {sightings} sightings"
    record_property("said", f"count of what was traced and computed equal: {counts}")
    for document in documents:
        down = client.lineage.Trace(TraceRequest(name=f"documents/{document}", direction=DIRECTION_DOWN))
        reached = {each.name for each in down.vertices if each.kind == "checkpoint"}
        assert reached == {name for name, seen in read.items() if document in seen}
        told = client.lineage.TraceDocument(TraceDocumentRequest(document=document))
        assert {(each.step, each.leaf, each.row, each.sample) for each in told.sightings} == read[last].get(
            document, set()
        )


def test_a_dataset_tells_its_languages_and_where_it_came_from(client: Client, slow: Slow) -> None:
    until(lambda: caught_up(client, slow), seconds=30, what="lineage")
    (dataset,) = client.tokenization.ListDatasets(ListRequest()).datasets
    told = described(client, dataset.name)
    assert told["documents"] == len({document for _, _, document in slow.spans})
    both = told["documents"] + told["validation_documents"]
    assert sum(each["documents"] for each in told["languages"]) == both
    assert sum(each["text_bytes"] for each in told["languages"]) == told["text_bytes"] + told["validation_bytes"]
    # The tokens of the texts, and an end of each.
    assert sum(each["tokens"] for each in told["languages"]) + both == told["tokens"] + told["validation_tokens"]
    assert told["languages"][0]["language"] == "en"
    assert 1 < told["bytes_a_token"] < 10
    kinds = [name.partition("/")[0] for name in told["ancestry"]]
    assert kinds == ["tokenizations", "dedups", "filters", "ingests", "runs"]


def test_a_page_is_found_by_its_path(client: Client, pages: Path) -> None:
    page = sorted(path.name for path in pages.iterdir())[0]
    up = client.lineage.Trace(TraceRequest(name=page, direction=DIRECTION_UP))
    assert up.vertices[0].label == page
    assert {each.kind for each in up.vertices} >= {"document", "document-shard", "ingest", "run"}


def test_a_page_is_found_by_the_path_of_its_file(
    client: Client, data_dir: Path, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = min(pages.iterdir())
    (tmp_path / "link").symlink_to(pages)

    def traced(path: Path | str) -> str:
        found = tutti("trace", path, "-o", "json", "--data-dir", data_dir)
        assert found.code == 0, found.err
        return str(found.json()["vertices"][0]["name"])

    wanted = traced(page.name)
    assert traced(page) == traced(tmp_path / "link" / page.name) == wanted
    monkeypatch.chdir(pages.parent)
    assert traced(f"{pages.name}/../{pages.name}/{page.name}") == wanted
    shown = tutti("documents", "show", page, "-o", "json", "--data-dir", data_dir).json()
    assert (shown["name"], shown["source"]) == (wanted, page.name)
    elsewhere = tmp_path / "pages" / page.name
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(page.read_bytes())  # which no run read
    refused = tutti("trace", elsewhere, "--data-dir", data_dir)
    assert refused.code == 1
    assert f"{elsewhere} does not exist; the nearest" in refused.err
    assert page.name in refused.err.partition("the nearest")[2].partition("[NOT_FOUND]")[0]


def test_the_input_folder_of_a_run_is_found_by_its_path(
    data_dir: Path, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(pages)
    for path in (pages, tmp_path / "link"):
        found = tutti("trace", path, "--down", "-o", "json", "--data-dir", data_dir)
        assert found.code == 0, found.err
        first, *made = found.json()["vertices"]
        assert (first["kind"], first["name"].partition("/")[0]) == ("ingest", "ingests")
        assert "checkpoint" in {each["kind"] for each in made}
        assert first["name"] in found.err
    monkeypatch.chdir(pages)
    assert tutti("trace", ".", "-o", "json", "--data-dir", data_dir).json()["vertices"][0]["name"] == first["name"]
    refused = tutti("trace", tmp_path, "--data-dir", data_dir)
    assert (refused.code, "is a folder" in refused.err) == (1, True)


def test_a_step_names_the_pages_that_it_saw(client: Client, data_dir: Path, slow: Slow, pages: Path) -> None:
    until(lambda: caught_up(client, slow), seconds=30, what="lineage")
    name, read = next((name, slow.read(name)) for name in slow.checkpoints)
    job = name.split("/")[1]
    told = tutti("trace", job, "--step", "3", "-o", "json", "--data-dir", data_dir).json()["sightings"]
    seen = {document for document, places in read.items() if 3 in {step for step, *_ in places}}
    assert {each["document"].removeprefix("documents/") for each in told} == seen
    assert {each["source"] for each in told} <= {path.name for path in pages.iterdir()}
    first, header, *rows = tutti("trace", f"jobs/{job}", "--step", "3", "--data-dir", data_dir).out.splitlines()
    assert first == f"jobs/{job} line 0, step 3"
    assert header.split() == ["leaf", "row", "sample", "document", "source"]
    assert [row.split()[-1] for row in rows] == [each["source"] for each in told]


def test_a_stranger_is_told_what_a_name_looks_like(client: Client, data_dir: Path) -> None:
    with pytest.raises(NotFound, match=r"no-such-page\.html does not exist"):
        client.lineage.TraceDocument(TraceDocumentRequest(document="no-such-page.html"))
    command = [
        sys.executable,
        str(ROOT / "examples" / "trace_page.py"),
        "no-such-page.html",
        "--data-dir",
        str(data_dir),
    ]
    example = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert (example.returncode, example.stderr) == (1, "NOT_FOUND: no-such-page.html does not exist\n")
    unindexed = tutti("trace", "--text", "x", "--data-dir", data_dir)
    assert unindexed.code == 1
    assert "has no index of verbatim spans: run its recipe again with `index: true`" in unindexed.err
    asked = tutti("trace", "no-such-page.html", "--data-dir", data_dir)
    assert asked.code == 1
    assert "checkpoints/JOB/LINE/STEP" in asked.err


def test_checkpoints_are_shown_by_step_and_not_by_name(client: Client, data_dir: Path, pages: Path) -> None:
    names = sorted(path.name for path in pages.iterdir())
    traces = {name: client.lineage.TraceDocument(TraceDocumentRequest(document=name)) for name in names}
    page, seen = next((name, each) for name, each in traces.items() if each.checkpoints)  # some pages are held out
    steps = [int(name.rpartition("/")[2]) for name in seen.checkpoints]
    assert steps == sorted(steps)
    traced = tutti("trace", page, "--down", "--data-dir", data_dir)
    assert traced.code == 0, traced.err
    shown = traced.out
    steps = [int(step) for step in re.findall(r"^checkpoint +checkpoints/\S+/(\d+)", shown, flags=re.MULTILINE)]
    assert steps == sorted(steps)
    assert len(steps) > 1, shown


def test_what_is_to_be_pruned_is_listed_before_and_where_there_is_nothing_that_is_said(
    client: Client, data_dir: Path
) -> None:
    newest = max(client.committer.ListCheckpoints(ListRequest()).checkpoints, key=lambda each: each.step)
    listed = tutti("checkpoints", "prune", newest.job, "--keep-last", "1", "--data-dir", data_dir)
    assert listed.out.count("would delete  checkpoints/") == 3
    (kept,) = [line for line in listed.out.splitlines() if line.startswith("would keep")]
    assert newest.name in kept
    assert "the newest of line 0" in kept
    assert listed.err.startswith("nothing was deleted; with --yes, 3 checkpoints are deleted")
    for asked in ([], ["--yes"]):
        nothing = tutti("checkpoints", "prune", newest.job, "--keep-last", "4", *asked, "--data-dir", data_dir)
        assert nothing.code == 0
        assert "delete" not in nothing.out
        assert nothing.out.count("of the newest 4 of line 0") == 4
        assert nothing.err.startswith("there is nothing to delete")


def test_checkpoints_of_selected_runs_are_listed_as_those_of_their_jobs(client: Client, data_dir: Path) -> None:
    newest = max(client.committer.ListCheckpoints(ListRequest()).checkpoints, key=lambda each: each.step)
    runs = client.pipeline.ListRuns(ListRequest()).runs
    users = [run.name for run in runs if any(each.resource == newest.job for each in run.stages)]

    def listed(*selection: str) -> Any:
        return tutti(
            "checkpoints", "prune", *selection, "--keep-last", "1", "-o", "json", "--data-dir", data_dir
        ).json()

    of_job = listed(newest.job)
    assert (len(of_job["checkpoints"]), of_job["deleted"], len(of_job["kept"])) == (3, False, 1)
    assert listed(newest.job, *users) == of_job
    tutti("runs", "tag", *users, "--add", "small", "--data-dir", data_dir)
    assert listed("--filter", "tags:small") == of_job
    assert listed("--archived")["checkpoints"] == []


def test_a_rebuild_from_the_command_line_leaves_a_whole_graph_as_it_was(
    client: Client, slow: Slow, data_dir: Path
) -> None:
    until(lambda: caught_up(client, slow), seconds=30, what="lineage")
    before = tutti("lineage", "rebuild", "--dry-run", "-o", "json", "--data-dir", data_dir).json()
    assert (before["unlisted"], before["doubted"]) == ([], 0)
    done = tutti("lineage", "rebuild", "-o", "json", "--data-dir", data_dir)
    assert done.code == 0, done.err
    size = {name: before[name] for name in ("vertices", "edges", "manifests")}
    assert done.json() == {"before": size, "after": size, "unreadable": 0}
    again = tutti("lineage", "rebuild", "--data-dir", data_dir)
    words = ", ".join(f"{count:,} {name}" for name, count in size.items())
    assert again.out == f"the graph is whole: {words} (before: {words})\n"
    assert caught_up(client, slow)
