import subprocess
import sys
from pathlib import Path

import pytest

from tutti.platform import interpreter

PROBE = "import queue\nprint(queue.__file__)\n"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A working directory that would replace `queue`, and a folder of our own with a module that imports it."""
    here, own = tmp_path / "here", tmp_path / "own"
    for folder in (here, here / "below", own):
        folder.mkdir()
    for folder in (here, here / "below"):
        (folder / "queue.py").write_text("")
        (folder / "probe.py").write_text("print('planted')\n")
    (own / "probe.py").write_text(PROBE)
    return here, own


@pytest.mark.parametrize(
    "entries", ["{own}", ":{own}", ".:{own}", "below:{own}:", "./below::~:{own}:.", "{own}:../here"]
)
def test_a_child_imports_nothing_from_the_working_directory(folders: tuple[Path, Path], entries: str) -> None:
    here, own = folders
    environment = {"PYTHONPATH": entries.format(own=own)}
    for command in (interpreter.module("probe"), interpreter.filled(["{python}", "-m", "{name}"], name="probe")):
        child = interpreter.start(command, environment, cwd=here, stdout=subprocess.PIPE)
        imported = child.communicate(timeout=60)[0].decode().strip()
        assert Path(imported) == Path(sys.modules["queue"].__file__ or ""), command


def test_a_path_without_absolute_entries_is_left_out() -> None:
    assert interpreter.PATH not in interpreter.isolated({"PYTHONPATH": ".:rel::"})
    assert interpreter.PATH not in interpreter.isolated({"PYTHONPATH": ""})
    assert interpreter.isolated({"PYTHONPATH": "/a:.:/b", "HOME": "/h"}).items() >= {
        ("PYTHONPATH", "/a:/b"),
        ("HOME", "/h"),
    }


def test_threads_of_a_child_share_two_arenas_unless_the_environment_says_otherwise() -> None:
    assert interpreter.isolated({})[interpreter.ARENAS] == interpreter.MOST_ARENAS
    assert interpreter.isolated({interpreter.ARENAS: "8"})[interpreter.ARENAS] == "8"


def test_threads_of_a_host_keep_no_freed_memory_unless_the_environment_says_otherwise() -> None:
    assert interpreter.of_many_threads({}) == {interpreter.TUNABLES: interpreter.NONE_A_THREAD}
    assert interpreter.of_many_threads({interpreter.TUNABLES: "glibc.malloc.tcache_count=7"}) == {}
