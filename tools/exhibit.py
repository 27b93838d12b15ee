"""The exhibit: real pages that every Python has, frozen.

Documentation of the standard library, rendered by `pydoc` in a separate process with an empty environment and a fixed
hash seed, twice; pages that differ between the two are left out.  Nothing of this machine is in them: addresses and
paths are masked.  A folder that is there and holds what its digest says is used as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tutti.records.canonical import bytes_digest, canonical_json, content_digest

LEAST = 300
_SPARE = 12  # pages rendered beyond a limit, because some will differ
_TIMEOUT_S = 180
_LOOK_S = 0.5  # between two words about how far it is
_RENDER = Path(__file__).with_name("exhibit_render.py")


class ExhibitError(Exception):
    """The pages can't be made."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """`folder` holds `pages` HTML files and nothing else; `digest` names their names and bytes."""

    folder: Path
    pages: int
    digest: str


def build(folder: Path, *, pages: int | None = None) -> Exhibit:
    """Make the exhibit below `folder` (or find it there): all pages, or the first `pages` of them.

    Raises ExhibitError when there are not enough.
    """
    if pages is not None and pages < 1:
        raise ExhibitError(f"--pages {pages}: expected at least 1")
    home = folder / (platform.python_version() + (f"-first-{pages}" if pages else ""))
    found = _frozen(home)
    if found is not None:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as scratch:
        once, again = (Path(scratch) / name for name in ("once", "again"))
        limit = sys.maxsize if pages is None else pages + _SPARE
        print(f"renders the documentation of Python {platform.python_version()}, twice", file=sys.stderr)
        running = [_start(target, limit) for target in (once, again)]
        for child, target in zip(running, (once, again), strict=True):
            _finish(child, target)
        chosen = _equal(once, again)[:pages]
        if len(chosen) < (pages or LEAST):
            raise ExhibitError(f"{len(chosen)} pages came out the same twice, expected at least {pages or LEAST}")
        made = Path(scratch) / "made"
        (made / "pages").mkdir(parents=True)
        for name in chosen:
            (once / f"{name}.html").rename(made / "pages" / f"{name}.html")
        (made / "digest.json").write_bytes(canonical_json(_record(made / "pages")))
        shutil.rmtree(home, ignore_errors=True)
        with contextlib.suppress(OSError):  # another process was faster; its pages are checked like ours
            made.rename(home)
    found = _frozen(home)
    if found is None:
        raise ExhibitError(f"{home}: the pages do not have the digest that was written beside them; remove the folder")
    return found


def point(folder: Path, exhibit: Exhibit) -> None:
    """Let `folder/pages` lead to the pages of this Python, for recipes that name no version."""
    fresh = folder / f".pages-{os.getpid()}"
    fresh.symlink_to(exhibit.folder.relative_to(folder))
    fresh.replace(folder / "pages")


def _start(target: Path, limit: int) -> subprocess.Popen[bytes]:
    target.mkdir()
    # sys._base_executable: a virtual environment's own interpreter has its path in what some modules show.
    command = [
        str(getattr(sys, "_base_executable", sys.executable)),
        "-S",
        "-s",
        "-P",
        "-B",
        "-X",
        "utf8",
        "-",
        str(limit),
    ]
    environment = {"PYTHONHASHSEED": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "UTC"}
    child = subprocess.Popen(
        command,
        cwd=target,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdin is not None
    child.stdin.write(_RENDER.read_bytes())
    child.stdin.close()
    child.stdin = None
    return child


def _finish(child: subprocess.Popen[bytes], target: Path) -> None:
    deadline, errors = time.monotonic() + _TIMEOUT_S, None
    while errors is None:
        try:
            _, errors = child.communicate(timeout=_LOOK_S)
        except subprocess.TimeoutExpired as error:
            if time.monotonic() > deadline:
                child.kill()
                child.communicate()
                raise ExhibitError(f"pydoc did not end within {_TIMEOUT_S} s") from error
            _progress(target)
    if child.returncode or not (target / "order.json").exists():
        raise ExhibitError(f"pydoc ended with {child.returncode}: {errors.decode(errors='replace')[-2000:]}")


def _progress(target: Path) -> None:
    """On a terminal, how many pages there are so far."""
    if sys.stderr.isatty():
        print(f"\r  {sum(1 for _ in target.glob('*.html'))} pages", end="\r", file=sys.stderr, flush=True)


def _equal(once: Path, again: Path) -> list[str]:
    """Names of the pages that are in both folders with the same bytes, in the order of rendering."""
    names: list[str] = json.loads((once / "order.json").read_bytes())
    return [
        name
        for name in names
        if (again / f"{name}.html").exists()
        and (once / f"{name}.html").read_bytes() == (again / f"{name}.html").read_bytes()
    ]


def _record(pages: Path) -> dict[str, object]:
    files = {page.name: bytes_digest(page.read_bytes()) for page in sorted(pages.iterdir())}
    return {"digest": content_digest(files, kind="exhibit"), "files": files}


def _frozen(home: Path) -> Exhibit | None:
    try:
        record = _record(home / "pages")
        if (home / "digest.json").read_bytes() != canonical_json(record):
            return None
    except OSError:
        return None
    files = record["files"]
    assert isinstance(files, dict)
    return Exhibit(home / "pages", len(files), str(record["digest"]))


def main() -> int:
    """Print the folder of the pages, on standard output alone; what else there is to say goes to standard error."""
    parser = argparse.ArgumentParser(
        description="Make a folder of real HTML pages: the standard library's documentation."
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("build/exhibit"), help="where exhibits are kept (%(default)s)"
    )
    parser.add_argument("--pages", type=int, default=None, help="the first so many pages (all)")
    arguments = parser.parse_args()
    try:
        exhibit = build(arguments.folder, pages=arguments.pages)
        if arguments.pages is None:
            point(arguments.folder, exhibit)
    except (ExhibitError, OSError) as error:
        print(f"exhibit: {error}", file=sys.stderr)
        return 1
    print(f"{exhibit.pages} pages, {exhibit.digest}", file=sys.stderr)
    print(exhibit.folder.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
