"""Twenty pages become committed checkpoints: once, again, elsewhere, changed, damaged."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.e2e.command import ROOT, checkpoints, environment, platform, tiny, tutti
from tests.network import PROXIES

SECRET = {"PLANTED_SECRET": "correct-horse-battery-staple-7719"}  # planted in the environment, to be looked for
WORD = "quagga-wardrobe-meridian-4821"  # planted in a page, to be found


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("e2e") / "a folder with spaces"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty pages: one with a word of ours, the others rendered in the environment with the secret."""
    command = [sys.executable, "tools/exhibit.py", "--pages", "19", "--folder", str(tmp_path_factory.mktemp("exhibit"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment(SECRET))
    folder = Path(done.stdout.strip())
    (folder / "planted.html").write_text(f"<h1>A page</h1><p>{'It says ' + WORD + ' to whoever reads it. '}</p>" * 9)
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory whose modules replace those of the standard library, and record who imported them."""
    folder = tmp_path_factory.mktemp("hostile")
    marks = folder / "marks"
    record = f"import os, sys\nopen({str(marks)!r} + '/' + str(os.getpid()), 'w').write(' '.join(sys.orig_argv))\n"
    for place in (marks, folder / "below"):
        place.mkdir()
    for name in ("queue", "random", "secrets", "uuid"):
        for place in (folder, folder / "below"):
            (place / f"{name}.py").write_text(record)
    return folder


@pytest.fixture(scope="module")
def first(data_dir: Path, pages: Path, hostile: Path) -> dict:  # type: ignore[type-arg]
    path = f".:below::{os.environ.get('PYTHONPATH', '')}"
    with contextlib.chdir(hostile):  # supervisor, host, agent, its children and pool workers start there
        result = tutti(*tiny(data_dir, pages), extra={**SECRET, "PYTHONPATH": path})
    marks = [path.read_text() for path in (hostile / "marks").iterdir()]
    assert marks == [], result.err
    assert result.code == 0, result.err
    return result.json()  # type: ignore[no-any-return]


def stages(summary: dict) -> dict[str, dict]:  # type: ignore[type-arg]
    return {stage["name"]: stage for stage in summary["run"]["stages"]}


def test_pages_become_committed_checkpoints(first: dict) -> None:  # type: ignore[type-arg]
    assert first["run"]["state"] == "done"
    assert first["ingest"]["files"] == 20
    assert sorted(checkpoints(first)) == [5, 10, 15, 20]
    assert all(digest.startswith("blake3:") for digest in checkpoints(first).values())
    assert first["train"]["state"] == "done"
    assert first["train"]["bits_per_byte"] > 0


def test_a_run_keeps_the_figures_of_its_summary(first: dict) -> None:  # type: ignore[type-arg]
    kept, job = first["run"]["figures"], first["train"]
    assert (kept["documents"], kept["tokens"]) == (first["dedup"]["documents"], first["dataset"]["tokens"])
    trained = kept["training"]
    assert (trained["job"], trained["loss"]) == (job["name"], job["newest_loss"])
    for name in ("step", "bits_per_byte", "parameters", "model_digest"):
        assert trained[name] == job[name]
    assert trained["checkpoint"] == first["checkpoints"][-1]["name"]


def test_a_run_ends_with_a_report_of_its_own(first: dict, data_dir: Path) -> None:  # type: ignore[type-arg]
    written = Path(first["report"])
    assert written.parent == data_dir / "reports"
    text = written.read_text()
    assert all(checkpoint["model_digest"][:19] in text for checkpoint in first["checkpoints"])
    assert text.count("<figure") == 3
    names = ("loss", "gradient-norm", "learning-rate")
    assert first["pictures"] == [str(written.with_suffix(f".{name}.svg")) for name in names]
    assert "at step 20" in Path(first["pictures"][0]).read_text()


def blobs_below(data_dir: Path, prefix: str) -> dict[str, bytes]:
    """The bytes of the blobs below a prefix, by step and digest: what is in their names beside job and epoch."""
    found = [path for path in (data_dir / "blobs" / prefix).iterdir() if path.is_file()]
    return {path.name.split(".")[2] + path.name.split(".")[-2]: path.read_bytes() for path in found}


def holds(path: Path, text: str) -> bool:
    """Whether a file has the text among its bytes, or in a column where those are compressed."""
    if text.encode() in path.read_bytes():
        return True
    if path.suffix != ".parquet":
        return False
    return text in str(pyarrow.parquet.read_table(path).to_pydict())  # type: ignore[no-untyped-call]


def test_the_logs_of_a_job_are_those_of_its_ranks_too(first: dict, data_dir: Path) -> None:  # type: ignore[type-arg]
    job = first["train"]["name"]
    shown = tutti("logs", job, "-o", "json", "--data-dir", data_dir)
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert any(f"rank 1 of {job}" in line["message"] for line in lines)
    assert all(job.partition("/")[2] in line["message"] for line in lines)


def test_nothing_of_the_environment_reaches_the_data_directory(first: dict, data_dir: Path) -> None:  # type: ignore[type-arg]
    (secret,) = SECRET.values()
    looked = [path for path in data_dir.rglob("*") if path.is_file()]
    assert len(looked) > 20
    assert [path for path in looked if holds(path, secret)] == []
    # A control: a word of a page is found, in the documents too.
    assert ".parquet" in {path.suffix for path in looked if holds(path, WORD)}


def test_where_the_pages_lie_is_told_of_the_run_and_reaches_no_event_and_no_blob(
    first: dict,  # type: ignore[type-arg]
    data_dir: Path,
    pages: Path,
) -> None:
    looked = [path for folder in ("blobs", "log") for path in (data_dir / folder).rglob("*") if path.is_file()]
    assert len(looked) > 20
    assert [path for path in looked if str(pages).encode() in path.read_bytes()] == []
    assert first["run"].pop("input_path") == str(pages)
    assert str(pages) not in json.dumps(first)


@pytest.fixture(scope="module")
def up(first: dict, data_dir: Path) -> Iterator[None]:  # type: ignore[type-arg]
    """The platform is up again from the first test on that needs it."""
    with platform(data_dir):
        yield


def test_what_a_run_made_is_named_by_the_run(first: dict, up: None, data_dir: Path, pages: Path) -> None:  # type: ignore[type-arg]
    last = max(first["checkpoints"], key=lambda each: each["step"])["name"]
    names = ("latest", "tiny", first["run"]["name"][:10], first["train"]["name"], last.split("/")[1][:9])
    for name in names:
        shown = tutti("checkpoints", "show", name, "-o", "json", "--data-dir", data_dir)
        assert (shown.code, shown.json()["name"]) == (0, last), shown.err
    listed = tutti("checkpoints", "ls", "--filter", "job=tiny", "-o", "json", "--data-dir", data_dir).json()
    run = tutti("runs", "show", "--data-dir", data_dir)
    training = tutti("runs", "show", "tiny", "-o", "json", "--data-dir", data_dir).json()["training"]
    assert [each["name"] for each in listed] == [each["name"] for each in first["checkpoints"]]
    assert (training["job"], training["step"], training["steps"]) == (first["train"]["name"], 20, 20)
    assert f"tutti sample {last} --prompt" in run.err
    assert re.search(rf"^input_path +{re.escape(str(pages))}$", run.out, re.MULTILINE)
    assert f"tutti sample {last} --prompt" in Path(first["report"]).read_text()


def test_a_run_trains_on_an_earlier_dataset_too_by_its_tokenizer(
    first: dict,  # type: ignore[type-arg]
    up: None,
    data_dir: Path,
    pages: Path,
    tmp_path: Path,
) -> None:
    for page in sorted(pages.iterdir())[:12]:
        (tmp_path / page.name).write_bytes(page.read_bytes().replace(b"the", b"this"))
    earlier = first["run"]["name"]
    mixture = (f"tokenizer.of={earlier}", f"mixture.datasets.{earlier}=3", "train.steps=6", "train.ranks=2")
    result = tutti(*tiny(data_dir, tmp_path, *mixture))
    assert result.code == 0, result.err
    made = result.json()
    own, other = made["mixture"]
    assert (own["dataset"], own["weight"]) == (made["tokenization"]["dataset"], 1)
    assert (other["dataset"], other["weight"]) == (first["tokenization"]["dataset"], 3)
    spec = json.loads(made["train"]["spec"]["training"])["step"]
    assert own["read"] + other["read"] == 6 * spec["leaves"] * spec["rows"]


@pytest.mark.parametrize("kind", ["webdataset", "hf-datasets"])
def test_the_dataset_of_a_run_is_written_for_others(
    first: dict,  # type: ignore[type-arg]
    up: None,
    data_dir: Path,
    tmp_path: Path,
    kind: str,
) -> None:
    folder, named = tmp_path / "texts", first["run"]["name"]
    export = ("datasets", "export", named, "--format", kind, "--to", folder, "-o", "json", "--data-dir", data_dir)
    told = tutti(*export)
    assert told.code == 0, told.err
    splits = told.json()["splits"]
    assert sum(split["samples"] for split in splits.values()) == first["dedup"]["documents"]
    assert splits["validation"]["samples"] == first["dataset"]["validation_documents"]
    if kind == "webdataset":
        with tarfile.open(folder / "train-00000.tar") as tar:
            texts = [tar.extractfile(each).read().decode() for each in tar if each.name.endswith(".txt")]  # type: ignore[union-attr]
    else:
        table = pyarrow.parquet.read_table(folder / "train-00000.parquet")  # type: ignore[no-untyped-call]
        texts = table["text"].to_pylist()
    assert sum(len(text.encode()) for text in texts) == splits["train"]["text_bytes"]
    again = tutti(*export)
    assert again.code == 2
    assert "is there and not an empty folder" in again.err


def test_a_second_run_reuses_every_stage(first: dict, up: None, data_dir: Path, pages: Path) -> None:  # type: ignore[type-arg]
    again = tutti(*tiny(data_dir, pages)).json()
    assert all(stage["reused"] for stage in stages(again).values())
    assert checkpoints(again) == checkpoints(first)


def test_with_other_steps_only_training_runs(first: dict, up: None, data_dir: Path, pages: Path) -> None:  # type: ignore[type-arg]
    shorter = tutti(*tiny(data_dir, pages, "train.steps=5")).json()
    assert {name: stage["reused"] for name, stage in stages(shorter).items()} == {
        "ingest": True,
        "filter": True,
        "dedup": True,
        "tokenization": True,
        "train": False,
    }


def test_a_stage_whose_blob_is_gone_runs_again(first: dict, up: None, data_dir: Path, pages: Path) -> None:  # type: ignore[type-arg]
    shards = list((data_dir / "blobs").rglob("*.parquet"))
    assert shards
    for shard in shards:
        shard.unlink()
    again = tutti(*tiny(data_dir, pages)).json()
    assert again["run"]["state"] == "done"
    assert not stages(again)["ingest"]["reused"]
    assert stages(again)["train"]["reused"]
    assert checkpoints(again) == checkpoints(first)


def test_another_data_directory_another_number_of_ranks_and_proxies_that_lead_nowhere_give_the_same_states(
    first: dict,  # type: ignore[type-arg]
    data_dir: Path,
    pages: Path,
    tmp_path: Path,
) -> None:
    with platform(tmp_path / "other", extra=PROXIES):
        other = tutti(*tiny(tmp_path / "other", pages, "train.ranks=3"), extra=PROXIES)
    assert other.code == 0, other.err
    assert checkpoints(other.json()) == checkpoints(first)
    told = blobs_below(tmp_path / "other", "committer/curves")
    assert len(told) == 4
    assert told.items() <= blobs_below(data_dir, "committer/curves").items()  # which holds those of another job too
