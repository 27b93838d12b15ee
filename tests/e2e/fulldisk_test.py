"""A disk that fills up: it is said in words, and the run goes on once there is space.

The disk is a small tmpfs in a mount namespace of its own, which is gone with its last process.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, TINY, TUTTI, environment
from tests.faults.processes import family, until

pytestmark = pytest.mark.timeout(300)
SIZE = "256m"  # a model of languages alone is unpacked into 65 MiB of scratch
OWN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


@contextmanager
def started(size: str, disk: Path, command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A command in a namespace where `disk` is a tmpfs; the process, and where we can see that disk."""
    mounted = f'mount -t tmpfs -o size={size} tutti "$0" && exec "$@"'
    with (disk.parent / f"{size}.err").open("wb") as err:
        process = subprocess.Popen(
            [*OWN_MOUNTS, "sh", "-c", mounted, str(disk), *command],
            stdout=subprocess.DEVNULL, stderr=err, env=environment(), cwd=ROOT,
        )  # fmt: skip
    try:
        yield process, Path(f"/proc/{process.pid}/root") / disk.relative_to("/")
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where a tmpfs can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        with started("1m", folder, ["true"]) as (process, _):
            refused = process.wait(30)
    except FileNotFoundError as error:
        pytest.skip(f"needs unshare of util-linux to mount a small tmpfs: {error}")
    if refused:
        pytest.skip("needs root, or user namespaces, to mount a small tmpfs: " + said(folder, "1m"))
    return folder


def said(disk: Path, size: str) -> str:
    return (disk.parent / f"{size}.err").read_text()


def run(disk: Path, pages: Path) -> list[str]:
    sets = [f"input.path={pages}", "train.steps=2"]
    return [TUTTI, "run", str(TINY), "--data-dir", f"{disk}/data", *(part for each in sets for part in ("--set", each))]


def fill(path: Path) -> None:
    """Write until the disk takes no more. Raises OSError."""
    with path.open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(1 << 12))


def test_a_platform_that_finds_no_room_does_not_start_and_says_so(disk: Path, pages: Path) -> None:
    with started("64k", disk, run(disk, pages)) as (process, _):
        assert process.wait(60) == 1
    words = said(disk, "64k").splitlines()
    assert words[-1].startswith("tutti: ")
    assert "the disk is full" in words[-1]
    assert "free some space" in words[-1]
    assert "Traceback" not in "".join(words)
    assert family(disk) == []


def test_a_run_waits_for_room_says_so_and_goes_on(disk: Path, pages: Path) -> None:
    with started(SIZE, disk, run(disk, pages)) as (process, seen):
        until(lambda: "ingest        began" in said(disk, SIZE), seconds=60, what="the run")
        assert "free some space" not in said(disk, SIZE)
        with pytest.raises(OSError, match="No space left"):
            fill(seen / "ballast")
        until(lambda: "MiB left: what cannot be written waits; free some space" in said(disk, SIZE), seconds=30,
              what="the word that the disk is full")  # fmt: skip
        (seen / "ballast").unlink()
        assert process.wait(180) == 0, said(disk, SIZE)
    words = said(disk, SIZE)
    assert "train         done" in words
    assert words.count("free some space") == 1
    assert "Traceback" not in words
    assert family(disk) == []
