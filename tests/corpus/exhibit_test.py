"""The exhibit: the same pages every time, and nothing of this machine in them."""

import getpass
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "exhibit.py"
PLANTED = "exhibit-planted-5f1c"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("exhibit", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["exhibit"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tool: ModuleType) -> Path:
    """A folder with 40 pages, made by the command with a secret in its environment."""
    folder = tmp_path_factory.mktemp("exhibit")
    done = subprocess.run(
        [sys.executable, TOOL, "--folder", folder, "--pages", "40"],
        env={**os.environ, "SECRET": PLANTED, PLANTED: "x"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert len(list(Path(done.stdout.strip()).iterdir())) == 40
    return folder


def contents(pages: Path) -> dict[str, bytes]:
    return {page.name: page.read_bytes() for page in pages.iterdir()}


def test_nothing_of_the_machine_is_in_a_page(folder: Path) -> None:
    marks = [PLANTED, str(folder), str(TOOL.parent), sys.executable, sys.prefix, os.path.realpath(sys.executable)]
    marks += [path for path in (os.path.expanduser("~"), f"/home/{getpass.getuser()}") if path != "/"]
    marks += [socket.gethostname()] if len(socket.gethostname()) > 6 else []
    for page in folder.rglob("*"):
        if page.is_file():
            found = [mark for mark in marks if mark.encode() in page.read_bytes()]
            assert not found, page


def test_the_pages_are_documentation_and_hold_a_duplicate(folder: Path, tool: ModuleType) -> None:
    exhibit = tool.build(folder, pages=40)
    pages = contents(exhibit.folder)
    assert all(b"<title>Python: " in page for page in pages.values())
    assert pages["os.path.html"] == pages["posixpath.html"]
    assert b"at 0x7" not in b"".join(pages.values())


def test_another_folder_gets_the_same_pages_and_fewer_pages_are_the_first_of_them(
    folder: Path, tool: ModuleType, tmp_path: Path
) -> None:
    again, few = tool.build(tmp_path / "a path", pages=40), tool.build(tmp_path / "a path", pages=10)
    assert (again.pages, again.digest) == (40, tool.build(folder, pages=40).digest)
    assert contents(few.folder).items() <= contents(again.folder).items()
    assert few.pages == 10


def test_frozen_pages_are_used_as_they_are_and_damaged_ones_are_made_anew(tool: ModuleType, tmp_path: Path) -> None:
    exhibit = tool.build(tmp_path, pages=3)
    page = exhibit.folder / "os.path.html"
    before = page.stat().st_ino
    assert tool.build(tmp_path, pages=3) == exhibit
    assert page.stat().st_ino == before
    good = page.read_bytes()
    page.write_bytes(good.replace(b"p", b"q", 1))
    assert tool.build(tmp_path, pages=3) == exhibit
    assert page.read_bytes() == good
    (exhibit.folder / "more.html").write_text("not ours")
    assert tool.build(tmp_path, pages=3) == exhibit
    assert not (exhibit.folder / "more.html").exists()


def test_impossible_numbers_of_pages_are_refused_in_words(tmp_path: Path) -> None:
    for pages, message in (("0", "expected at least 1"), ("x", "invalid int value")):
        done = subprocess.run(
            [sys.executable, TOOL, "--folder", tmp_path, "--pages", pages], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert message in done.stderr
        assert "Traceback" not in done.stderr
