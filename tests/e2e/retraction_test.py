"""A page is retracted, and what it had a part in made again: to the same state as by a run that never had the page."""

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.e2e.command import ROOT, TINY, platform, tutti
from tests.faults.processes import until
from tests.scale import rotated, scale
from tutti.chassis.errors import NotFound, Refused
from tutti.cli.failures import Failure
from tutti.cli.progress import follow
from tutti.client import Client, connect
from tutti.contracts.common.v1 import STATE_DONE, ListRequest
from tutti.contracts.lineage.v1 import ListDocumentsRequest, TraceDocumentRequest
from tutti.contracts.pipeline.v1 import RERUN_EFFECT_PERHAPS, CreateRunRequest, Run
from tutti.lineage.commands.retractions import EFFECTS, EVERY, recorded, retract

SEED, COPIES, STEPS = 7, 3, 2
FEW, MANY = 6, 300


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of the exhibit, and one page three times in slightly different words."""
    count = scale(test=FEW, soak=MANY)
    command = [sys.executable, "tools/exhibit.py", *(["--pages", str(count)] if count == FEW else [])]
    exhibit = Path(subprocess.check_output(command, cwd=ROOT, text=True).strip().splitlines()[-1])
    folder = tmp_path_factory.mktemp("retraction") / "pages"
    folder.mkdir()
    for page in [each for each in sorted(exhibit.iterdir()) if each.is_file()][:count]:
        shutil.copy(page, folder / page.name)
    for number in range(COPIES):
        words = " ".join(f"A part of a whole is told {word} here." for word in range(60))
        (folder / f"copy-{number}.html").write_text(f"<html><body><p>{words} Copy {number}.</p></body></html>")
    return folder


class Place:
    """A data directory whose platform is up."""

    def __init__(self, folder: Path, client: Client) -> None:
        self.folder, self.client = folder, client

    def run(self, pages: Path, against: str = "") -> Run:
        wanted = {"input.path": pages, "input.limit": 0, "dedup.lines.most": 2}
        training = {"train.steps": STEPS, "train.checkpoint_every": 1, "train.ranks": 1}
        compared = {"dedup.against": against} if against else {}
        sets = [f"{key}={value}" for key, value in {**wanted, **training, **compared}.items()]
        return self.ended(CreateRunRequest(recipe=TINY.read_text(), overrides=sets, directory=str(TINY.parent)))

    def again(self, run: Run) -> Run:
        return self.ended(CreateRunRequest(again=run.name))

    def ended(self, request: CreateRunRequest) -> Run:
        name = self.client.pipeline.CreateRun(request, timeout=60).run.name
        run = follow(self.client, name, quiet=True, ended=lambda: False, trouble=lambda: "")
        assert run.state == STATE_DONE, run.reason
        return run

    def states(self, run: Run) -> dict[int, str]:
        """Step to state digest."""
        asked = ListRequest(filter=f"job={stage_of(run, 'train').resource}")
        return {each.step: each.state_digest for each in self.client.committer.ListCheckpoints(asked).checkpoints}

    def listed(self, run: Run, what: str) -> list[str]:
        """The sources of the pages of which that is so, as far as lineage knows."""
        try:
            return [each.source for each in self.client.lineage.ListDocuments(asked_for(run, what)).documents]
        except (NotFound, Refused):
            return []

    def seen(self, run: Run) -> list[str]:
        """The pages that steps of its job saw, as far as lineage knows."""
        asked = [TraceDocumentRequest(document=each, job=job_of(run)) for each in self.listed(run, "kept")]
        return [each.document for each in asked if self.client.lineage.TraceDocument(each).sightings]

    def require_listed(self, run: Run, what: str, sources: list[str]) -> None:
        """Lineage comes to say that of these pages."""
        until(lambda: self.listed(run, what) == sources, seconds=60, what=f"{what} {sources}")

    def ask(self, command: click.Command, *arguments: str) -> Any:
        chosen = [*arguments, "-o", "json", "--data-dir", str(self.folder)]
        done = CliRunner().invoke(command, chosen, standalone_mode=False, catch_exceptions=False)
        return json.loads(done.stdout)


def asked_for(run: Run, what: str) -> ListDocumentsRequest:
    return ListDocumentsRequest(run=run.name, what=what, page_size=1000)


def stage_of(run: Run, name: str) -> Any:
    return next(stage for stage in run.stages if stage.name == name)


def dataset_of(run: Run) -> str:
    return f"datasets/{stage_of(run, 'tokenization').content_digest.removeprefix('blake3:')}"


def job_of(run: Run) -> str:
    return str(stage_of(run, "train").resource)


def reused(run: Run) -> set[str]:
    return {stage.name for stage in run.stages if stage.reused}


def place(folder: Path) -> Iterator[Place]:
    with platform(folder):
        client = connect(data_dir=folder)
        yield Place(folder, client)
        client.close()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    yield from place(tmp_path_factory.mktemp("here") / "data")


@pytest.fixture(scope="module")
def elsewhere(served: Path) -> Iterator[Place]:
    """Where nothing was retracted."""
    with connect(data_dir=served) as client:
        yield Place(served, client)


@pytest.fixture(scope="module")
def first(here: Place, pages: Path) -> Run:
    run = here.run(pages)
    kept = [f"copy-{number}.html" for number in range(COPIES)]
    until(lambda: len(set(kept) & set(here.listed(run, "duplicate"))) == COPIES - 1, seconds=60, what="lineage")
    return run


def test_every_rerun_ends_in_the_state_of_a_run_that_never_had_the_page(
    here: Place,
    elsewhere: Place,
    first: Run,
    pages: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    kept = here.listed(first, "kept")
    (stands,) = [source for source in kept if source.startswith("copy-")]
    others = [source for source in kept if source != stands]
    chosen = rotated([stands, *random.Random(SEED).sample(others, scale(test=2, soak=10) - 1)], test=1)
    for number, page in enumerate(chosen):
        made = here.ask(retract, page, "--reason", "its author asked")
        require_touched(made, here, first)
        again = here.again(first)
        assert reused(again) == {"ingest"}
        without = tmp_path / str(number)
        shutil.copytree(pages, without)
        (without / page).unlink()
        never = elsewhere.run(without)
        assert here.states(again) == elsewhere.states(never)
        assert stage_of(again, "train").content_digest == stage_of(never, "train").content_digest
        assert stage_of(again, "tokenization").content_digest == stage_of(never, "tokenization").content_digest
        assert not here.states(again).items() & here.states(first).items()
        here.require_listed(again, "rejected/retracted", [page])
        require_told_who_uses_what_stays(here.ask(retract, page), first, again)
        assert sum(source.startswith("copy-") for source in here.listed(again, "kept")) == 1
        (plan,) = here.ask(retract, made["documents"][0]["document"], "--dry-run")["plan"]
        assert plan["command"] == ""
        here.ask(recorded(), "withdraw", made["retraction"]["name"])
    record_property("said", f"count of pages retracted: {len(chosen)} of {len(kept)}")


def require_touched(made: Any, here: Place, first: Run) -> None:
    """Everything that the first run made of a page that it trained on is named, with the way to make it again."""
    assert (made["recorded"], made["document_count"]) == (True, 1)
    assert made["retraction"]["spec"]["reason"] == "its author asked"
    assert dataset_of(first) in [each["dataset"] for each in made["datasets"]]
    job = job_of(first)
    told = {each["checkpoint"] for each in made["checkpoints"]}
    assert told >= {f"checkpoints/{job.removeprefix('jobs/')}/0/{step}" for step in here.states(first)}
    (plan,) = made["plan"]
    assert (plan["command"].rpartition(" ")[0], plan["steps"]) == ("tutti runs again", STEPS)
    assert {stage["name"]: stage["what"] for stage in plan["stages"]} == {
        "ingest": "reused", "filter": "again", "dedup": "again", "tokenization": "again", "train": "again",
    }  # fmt: skip
    assert any(blob.startswith("ingest/document-shards/") for blob in made["blobs"])
    assert any(blob.startswith("tokenization/token-shards/") for blob in made["blobs"])


def require_told_who_uses_what_stays(told: Any, first: Run, again: Run) -> None:
    """A run that was made without the page uses the documents beside it, and of the tokens none."""
    used = {run.name: {each["blob"] for each in told["held"] if run.name in each["runs"]} for run in (first, again)}
    assert [each["blob"] for each in told["held"]] == told["blobs"]
    read = {blob for blob in told["blobs"] if blob.startswith("ingest/document-shards/")}
    assert used[again.name] == read < used[first.name]


def test_a_duplicate_that_was_dropped_is_retracted_without_a_step_of_training(here: Place, first: Run) -> None:
    dropped = here.listed(first, "duplicate")[0]
    made = here.ask(retract, dropped)
    assert (made["datasets"], made["checkpoints"], made["lines"]) == ([], [], [])
    again = here.again(first)
    assert "dedup" not in reused(again)
    assert "train" in reused(again)
    assert here.states(again) == here.states(first)
    listed = here.ask(recorded(), "ls")
    assert [each["source"] for each in listed if not each["withdrawn"]] == [dropped]
    here.ask(recorded(), "withdraw", made["retraction"]["name"])


def test_who_was_compared_with_the_page_gets_what_it_lost_to_it_as_if_it_had_never_been_there(
    here: Place, elsewhere: Place, first: Run, pages: Path, tmp_path: Path
) -> None:
    dropped = here.client.lineage.ListDocuments(asked_for(first, "duplicate")).documents
    page = next(source for source in here.listed(first, "kept") if source not in {each.stays for each in dropped})
    later, without = tmp_path / "later", tmp_path / "without"
    later.mkdir()
    shutil.copy(pages / page, later / "again.html")
    for number in range(FEW):
        words = " ".join(f"Story {number} goes on, {number * 60 + word} words in." for word in range(60))
        (later / f"{number}.txt").write_text(words)
    compared = here.run(later, dataset_of(first))
    here.require_listed(compared, "duplicate/earlier", ["again.html"])
    made = here.ask(retract, page)
    own, taker = made["plan"]
    assert taker == {
        "run": compared.name,
        "title": compared.spec.title,
        "command": f"tutti runs again {compared.name}",
        "after": EVERY,
        "steps": STEPS,
        "stages": [
            {"name": "ingest", "what": "reused"},
            {"name": "filter", "what": "reused"},
            *({"name": name, "what": EFFECTS[RERUN_EFFECT_PERHAPS]} for name in ("dedup", "tokenization", "train")),
        ],
    }
    shutil.copytree(pages, without)
    (without / page).unlink()
    never = elsewhere.run(later, dataset_of(elsewhere.run(without)))
    at_once = here.again(compared)
    assert reused(at_once) == {"ingest", "filter"}
    assert at_once.spec == compared.spec
    before = here.ended(CreateRunRequest(again=own["command"].split()[-1]))
    again = here.again(compared)
    assert json.loads(again.spec.recipe)["dedup"]["against"] == [dataset_of(before)] != [dataset_of(first)]
    for run in (at_once, again):
        assert here.states(run) == elsewhere.states(never) != here.states(compared)
        assert stage_of(run, "train").content_digest == stage_of(never, "train").content_digest
        assert dataset_of(run) == dataset_of(never)
        here.require_listed(run, "duplicate/earlier", [])
    told = here.ask(retract, made["documents"][0]["document"], "--dry-run")["plan"]
    assert [each["command"] for each in told] == [""]
    here.ask(recorded(), "withdraw", made["retraction"]["name"])


def test_what_nobody_read_is_refused_and_a_person_is_told_what_stays(here: Place, first: Run) -> None:
    with pytest.raises(Failure, match=r"nothing was read under nobody\.html \[NOT_FOUND\]"):
        here.ask(retract, "nobody.html")
    page = here.listed(first, "kept")[0]
    told = tutti("documents", "retract", page, "--dry-run", "--data-dir", here.folder)
    assert told.code == 0, told.err
    assert f"{page} would be left out\n" in told.out
    assert re.search(r"What stays, until you remove it\n  ingest/document-shards/\S+  used by .*runs/", told.out)
    assert "`tutti runs again` reuses those of what was read. To be rid of them take the page" in told.out
    assert "nothing was recorded" in told.err
    assert all(each["withdrawn"] for each in here.ask(recorded(), "ls"))
    again = tutti("runs", "again", first.name, "--dry-run", "-o", "json", "--data-dir", here.folder)
    assert [stage["reused"] for stage in again.json()] == [True] * len(first.stages)


def test_blobs_are_removed_once_no_run_uses_them_that_is_wanted_and_the_rest_is_told_as_before(
    pages: Path, tmp_path: Path
) -> None:
    data, without = tmp_path / "data", tmp_path / "without"
    up = place(data)
    here = next(up)
    first = here.run(pages)
    until(lambda: here.listed(first, "kept") != [], seconds=60, what="lineage")
    page = here.listed(first, "kept")[0]
    here.ask(retract, page)
    shutil.copytree(pages, without)
    (without / page).unlink()
    run = here.run(without)
    until(lambda: here.seen(run) != [], seconds=60, what="lineage")
    other = here.seen(run)[-1]
    held = here.ask(retract, page, "--dry-run")["held"]
    assert [each["runs"] for each in held] == [[first.name]] * len(held)
    assert next(up, None) is None  # it is down

    for each in held:
        (data / "blobs" / each["blob"]).unlink()
    with platform(data, agents=0):
        shown = tutti("documents", "show", other, "--data-dir", data)
        assert shown.code == 0, shown.err
        down = tutti("trace", other, "--down", "--data-dir", data)
        assert down.code == 0, down.err
        assert (dataset_of(run) in down.out, f"{job_of(run)} line 0" in down.out) == (True, True), down.out
        assert "blobs are gone, so what they hold of it is not told: tokenization/token-shards/" in down.err
        came_from = tutti("trace", dataset_of(run), "--data-dir", data)
        assert (came_from.code, other in came_from.out, page in came_from.out, came_from.err) == (0, True, False, "")
        told = tutti("documents", "retract", other, "--dry-run", "--data-dir", data)
        assert (told.code, "\nGone, so what came of the page there is not told\n" in told.out) == (0, True), told.err
        again = tutti("runs", "again", run.name, "--dry-run", "-o", "json", "--data-dir", data)
        assert [stage["reused"] for stage in again.json()] == [True] * len(run.stages)
        lost = tutti("documents", "retract", page, "--data-dir", data)
        assert (lost.code, "is gone; run its ingest again" in lost.err) == (1, True)
