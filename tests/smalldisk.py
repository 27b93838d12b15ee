"""A small disk for processes to fill: a tmpfs in a mount namespace of its own, which is gone with its last process."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

from tests.lacking import lacking

ROOT = Path(__file__).resolve().parents[1]
OWN_MOUNTS = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


@contextmanager
def started(
    size: str, disk: Path, command: Sequence[str], env: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A command in a namespace where `disk` is a tmpfs; the process, and where we can see that disk.

    What it prints is in the files `SIZE.out` and `SIZE.err` beside the disk.
    """
    mounted = f'mount -t tmpfs -o size={size} tutti "$0" && exec "$@"'
    with (disk.parent / f"{size}.out").open("wb") as out, (disk.parent / f"{size}.err").open("wb") as err:
        process = subprocess.Popen(
            [*OWN_MOUNTS, "sh", "-c", mounted, str(disk), *command], stdout=out, stderr=err, env=env, cwd=ROOT
        )
    try:
        yield process, Path(f"/proc/{process.pid}/root") / disk.relative_to("/")
    finally:
        process.terminate()
        process.wait(60)


def mountable(folder: Path) -> Path:
    """A new folder where a tmpfs can be mounted; the test is skipped where none can be, and fails with CI set."""
    disk = folder / "disk"
    disk.mkdir()
    try:
        with started("1m", disk, ["true"]) as (process, _):
            refused = process.wait(30)
    except FileNotFoundError as error:
        lacking(f"needs unshare of util-linux to mount a small tmpfs: {error}")
    if refused:
        lacking("needs root, or user namespaces, to mount a small tmpfs: " + said(disk, "1m"))
    return disk


def said(disk: Path, size: str) -> str:
    """What a command has printed for people."""
    return (disk.parent / f"{size}.err").read_text()


def fill(path: Path) -> None:
    """Write until the disk takes no more. Raises OSError."""
    with path.open("wb", buffering=0) as ballast:
        os.posix_fallocate(ballast.fileno(), 0, shutil.disk_usage(path).free)  # most of it at once
        ballast.seek(0, os.SEEK_END)
        while True:
            ballast.write(bytes(1 << 12))


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """While there is no room, nor any that is made by removing what is old: a little is enough for a small model."""
    with suppress(OSError):
        fill(disk / "ballast")
    over = Event()

    def keep() -> None:
        with (disk / "ballast").open("ab", buffering=0) as ballast:
            while not over.wait(0.005):
                with suppress(OSError):
                    while ballast.write(bytes(1 << 12)):
                        pass

    with ThreadPoolExecutor(1) as threads:
        kept = threads.submit(keep)
        try:
            yield
        finally:
            over.set()
    kept.result()
    (disk / "ballast").unlink()
