"""A disk that fills up: it is said in words, and what waits for room goes on once there is some."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, TINY, TUTTI, checkpoints, environment, tiny, tutti
from tests.faults.processes import family, until
from tests.smalldisk import full, mountable, said, started
from tutti.client import Client, connect
from tutti.contracts.common.v1 import ListRequest

SIZE = "256m"  # a model of languages alone is unpacked into 65 MiB of scratch
STEPS = 100
WAITS = " left: what cannot be written waits; free some space"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where a tmpfs can be mounted."""
    return mountable(tmp_path)


def run(disk: Path, pages: Path) -> list[str]:
    sets = [f"input.path={pages}", "train.steps=2"]
    return [TUTTI, "run", str(TINY), "--data-dir", f"{disk}/data", *(part for each in sets for part in ("--set", each))]


def test_a_platform_that_finds_no_room_does_not_start_and_says_so(disk: Path, pages: Path) -> None:
    with started("64k", disk, run(disk, pages), environment()) as (process, _):
        assert process.wait(60) == 1
    words = said(disk, "64k").splitlines()
    assert words[-1].startswith("tutti: ")
    assert "the disk is full" in words[-1]
    assert "free some space" in words[-1]
    assert "Traceback" not in "".join(words)
    assert family(disk) == []


def test_a_run_waits_for_room_says_so_and_goes_on(disk: Path, pages: Path) -> None:
    with started(SIZE, disk, run(disk, pages), environment()) as (process, seen):
        until(lambda: "ingest  " in said(disk, SIZE), seconds=60, what="the run")  # it began, or is done already
        assert "free some space" not in said(disk, SIZE)
        with full(seen):
            until(lambda: WAITS in said(disk, SIZE), seconds=60, what="the word that the disk is full")
        assert process.wait(180) == 0, said(disk, SIZE)
    words = said(disk, SIZE)
    assert "train         done" in words
    assert words.count("free some space") == 1
    assert "Traceback" not in words
    assert family(disk) == []


@contextmanager
def beside(folder: Path, *arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command whose output is in the files `out` and `err` of a new folder."""
    folder.mkdir()
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        command = [TUTTI, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment(), cwd=ROOT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@dataclass(frozen=True)
class Asked:
    """How a command ended that was given while the disk was full."""

    code: int
    out: str
    err: str


def without_room(seen: Path, client: Client, folder: Path, command: Sequence[str | Path]) -> Asked:
    """Give a command while the disk is full, until it is refused or accepted, and make room then.

    Whether it is refused depends on the room that is left in the log of the database, which nobody can fill.
    """

    def accepted() -> int:
        return len(client.sampling.ListSamples(ListRequest()).samples) + len(
            client.sampling.ListExports(ListRequest()).exports
        )

    before = accepted()
    with ExitStack() as stack:
        with full(seen):
            process = stack.enter_context(beside(folder, *command))
            until(lambda: process.poll() is not None or accepted() > before, seconds=60, what=f"word of {command[0]}")
        code = process.wait(120)
    return Asked(code, (folder / "out").read_text(), (folder / "err").read_text())


def assert_refused_for_want_of_room(asked: Asked) -> None:
    """It is refused in one line that says so."""
    assert asked.code != 0
    assert (asked.out, asked.err.count("\n")) == ("", 1), asked.err
    assert "the disk is full" in asked.err
    assert "free some space" in asked.err


def test_training_and_exports_stop_where_there_is_no_room_and_go_on_to_the_same(
    disk: Path, pages: Path, tmp_path: Path
) -> None:
    with started(SIZE, disk, [TUTTI, "up", "--data-dir", f"{disk}/data"], environment()) as (process, seen):
        data, err = seen / "data", tmp_path / "run" / "err"
        until(lambda: (data / "endpoint").exists() or process.poll() is not None, seconds=60, what="the platform")
        long = f"train.steps={STEPS}"  # it must not be done before the disk is full
        calm = tutti(*tiny(data, pages, long, f"train.checkpoint_every={STEPS}"))
        assert calm.code == 0, calm.err
        often = tiny(data, pages, long, f"train.checkpoint_every={STEPS // 4}", output=())
        with beside(tmp_path / "run", *often) as again:
            until(lambda: "epoch 1: 2 ranks" in err.read_text(), seconds=60, what="its ranks")
            with full(seen):
                until(lambda: WAITS in err.read_text(), seconds=60, what="the word that the disk is full")
                with pytest.raises(AssertionError, match="the end of training did not come"):
                    until(lambda: f"step {STEPS}/{STEPS}" in err.read_text(), seconds=3, what="the end of training")
            assert again.wait(120) == 0, err.read_text()
        assert "Traceback" not in err.read_text()
        made = tutti(*often, "-o", "json").json()
        assert sorted(checkpoints(made)) == [STEPS * part // 4 for part in (1, 2, 3, 4)]
        assert checkpoints(made)[STEPS] == checkpoints(calm.json())[STEPS]

        last = next(each["name"] for each in made["checkpoints"] if each["step"] == STEPS)
        with connect(data_dir=data) as client:
            sample = ("sample", last, "--prompt", "The module", "--tokens", "8", "--data-dir", data, "-o", "json")
            asked = without_room(seen, client, tmp_path / "sample", sample)
            if asked.code:
                assert_refused_for_want_of_room(asked)
                assert tutti(*sample).json()["state"] == "done"
            else:
                assert json.loads(asked.out)["state"] == "done"
            for export in (("checkpoints", "export", last), ("datasets", "export", made["run"]["name"])):
                to = seen / export[0]
                command = (*export, "--to", to, "--data-dir", data)
                asked = without_room(seen, client, tmp_path / export[0], command)
                if asked.code:
                    assert_refused_for_want_of_room(asked)
                    assert [path.name for path in seen.iterdir()] == ["data"]
                    done = tutti(*command)
                    assert done.code == 0, done.err
                assert any(to.iterdir())
                shutil.rmtree(to)
