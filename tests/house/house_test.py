"""The house: who may import whom is derived from what exists, and files stay small."""

import importlib.util
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from tools import house, soak

ROOT = Path(__file__).resolve().parents[2]


def test_every_service_with_a_build_has_an_entry_point_and_every_entry_point_a_service() -> None:
    built = {path.parent.name for path in ROOT.glob("services/tutti/*/service.py")}
    assert built == set(house.entry_points())


def test_every_folder_of_the_roots_is_a_package_and_tutti_itself_is_none() -> None:
    for root in ("libs", "services"):
        assert not (ROOT / root / "tutti" / "__init__.py").exists()
        for path in (ROOT / root / "tutti").rglob("*.py"):
            assert (path.parent / "__init__.py").exists() or path.parent.name == "tutti", path.parent


def test_the_import_rules_cover_every_package() -> None:
    rules = house.contracts()
    for name in house.libraries() + house.services():
        assert f"    tutti.{name}\n" in rules


def test_a_docstring_that_begins_with_a_question_word_is_found() -> None:
    source = '"""The rows of a job."""\n\ndef count() -> int:\n    """How many rows there are."""\n    return 0\n'
    assert list(house.questions(source)) == [(4, "How many rows there are.")]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import sys\nprint([sys.executable, '-m', 'tutti.trainer'])\n", "sys.executable"),
        ("from sys import executable as python\nprint(python)\n", "sys.executable"),
        ("import subprocess as other\nother.Popen(['cc'])\n", "subprocess.Popen"),
        ("from subprocess import run\nrun(['cc'])\n", "subprocess.run"),
        ("import os\nos.execvp('python', ['python'])\n", "os.execvp"),
        ("import multiprocessing\nmultiprocessing.get_context('spawn')\n", "multiprocessing.get_context"),
        ("import multiprocessing.pool\nmultiprocessing.pool.Pool()\n", "multiprocessing.pool.Pool"),
        (
            "from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor()\n",
            "concurrent.futures.ProcessPoolExecutor",
        ),
        ("import webbrowser\nwebbrowser.open('http://localhost')\n", "webbrowser.open"),
    ],
)
def test_another_way_to_start_a_process_is_found(source: str, name: str) -> None:
    assert list(house.starts(source)) == [(2, name)]


def test_annotations_and_connections_start_no_process() -> None:
    source = (
        "import subprocess\nfrom multiprocessing.connection import Connection\nfrom re import run\n"
        "child: subprocess.Popen[bytes] | None = None\nConnection(3)\nrun('x')\n"
    )
    assert list(house.starts(source)) == []


def test_no_page_tells_a_user_to_import_from_the_working_directory() -> None:
    typed = re.compile(r"python3? -m tutti\b")
    folders = ("docs", "libs", "services", "deploy", "protos", "examples", "recipes")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")] + list(ROOT.glob("*.md"))
    texts = [path for path in paths if path.suffix in {".md", ".py", ".c", ".yaml", ".yml", ".html", ".proto"}]
    found = [path for path in texts if path.name != "CHANGELOG.md" and typed.search(path.read_text())]
    assert found == []


def test_files_are_short() -> None:
    found = house.lengths()
    assert statistics.median(found.values()) <= house.MEDIAN_LINES
    assert list(house.too_long(found)) == []


@pytest.mark.parametrize(
    ("lines", "allowed", "wrong"),
    [
        (450, {}, 0),
        (451, {}, 1),
        (451, {"a.py": 451}, 0),
        (452, {"a.py": 451}, 1),
        (451, {"a.py": 452}, 1),
        (450, {"a.py": 451}, 1),
    ],
)
def test_a_module_is_at_most_as_long_as_its_allowance_which_only_falls(
    lines: int, allowed: dict[str, int], wrong: int
) -> None:
    assert len(list(house.too_long({"a.py": lines}, allowed))) == wrong


def test_an_allowance_for_a_module_that_is_gone_is_found() -> None:
    assert len(list(house.too_long({}, {"gone.py": 500}))) == 1


def test_a_service_uses_the_command_line_in_its_commands_alone() -> None:
    rule = house.contracts().partition("[importlinter:contract:commands]")[2].partition("[importlinter:")[0]
    assert "    tutti.cli\n" in rule
    for name in house.services():
        assert f"    tutti.{name}.commands.** -> tutti.**\n" in rule


def test_arrays_are_written_so_that_a_full_disk_is_known() -> None:
    found = [
        path for root in ("libs", "services") for path in (ROOT / root).rglob("*.py") if ".tofile(" in path.read_text()
    ]
    assert [path for path in found if not path.name.endswith("_test.py")] == []  # tutti.corpus.arrays says why


def test_every_row_of_the_campaigns_names_what_is_there() -> None:
    assert sorted(soak.ROWS) == list(range(1, 28))
    for command in (command.arguments for row in soak.ROWS.values() for command in row.commands):
        assert command[0] != "-m" or importlib.util.find_spec(command[1]), command
        paths = [part for part in command if "/" in part]
        assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_row_of_the_campaigns_has_a_record_of_its_commands_or_is_due() -> None:
    assert soak.due() == soak.DUE


def test_every_campaign_that_has_a_full_number_is_in_a_row() -> None:
    """What nobody runs at its full number shows nothing at it."""
    rows = {part for row in soak.ROWS.values() for command in row.commands for part in command.arguments}
    scaled = re.compile(r"^from tests\.scale import .*\bscale\b", re.MULTILINE)
    found = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*_test.py") if scaled.search(path.read_text())]
    left = [each for each in found if rows.isdisjoint({str(each), *map(str, each.parents)})]
    assert left == [Path("tests/summary_test.py")]  # which is about `scale` itself


def test_every_service_has_a_page_about_itself() -> None:
    missing = [name for name in house.services() if not (ROOT / "services/tutti" / name / "README.md").exists()]
    assert missing == []


def test_messages_and_arithmetic_import_no_grpc() -> None:
    assert imports("tutti.contracts.trainer.v1, tutti.contracts.scheduler.v1, tutti.model", "grpc", "sqlalchemy") == []


def test_what_a_committer_needs_imports_no_torch() -> None:
    assert imports("tutti.checkpoints.manifest, tutti.model.plan, tutti.model.training", "torch") == []


def imports(modules: str, *libraries: str) -> list[str]:
    """Return those of the libraries that a process has once it imported the modules."""
    code = f"import sys, {modules}; print(*(each for each in {libraries} if each in sys.modules))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
