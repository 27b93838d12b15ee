"""How tests are spread over workers."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.spreading import SHARING, WAITING, preferred, unit

ROOT = Path(__file__).resolve().parents[1]
SUITE = """
from tests.scale import parts

@parts(4)
def test_part(part):
    pass

def test_one():
    pass

def test_two():
    pass
"""
PASSES = "def test_first(): pass\ndef test_second(): pass\ndef test_third(): pass\n"
DIES_ONCE = """
import os
from pathlib import Path

def test_dies():
    try:
        Path(__file__).with_suffix(".died").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), 9)
"""


def test_a_module_is_a_unit_and_so_is_a_part_of_a_campaign() -> None:
    assert unit("tests/a_test.py::test_one[x]") == unit("tests/a_test.py::test_two") == "tests/a_test.py"
    assert unit("tests/a_test.py::test_one[part3]") == unit("tests/a_test.py::test_two[y-part3]")
    assert len({unit(f"tests/a_test.py::test_one[part{part}]") for part in range(12)}) == 12
    assert unit("tests/a_test.py::test_partner[partial]") == "tests/a_test.py"


def test_a_worker_prefers_units_that_compute_or_those_that_wait_and_takes_the_others_at_the_end() -> None:
    waits, computes = f"{WAITING[0]}a_test.py", "tests/numerics/a_test.py"
    assert preferred([computes, waits], waiting=True) == waits
    assert preferred([waits, computes], waiting=False) == computes
    assert preferred([waits], waiting=False) == waits
    assert preferred([computes], waiting=True) == computes


def test_units_that_share_a_platform_go_to_one_worker_until_nothing_else_is_left() -> None:
    waits, computes, shares = f"{WAITING[0]}a_test.py", "tests/numerics/a_test.py", SHARING[0]
    assert preferred([computes, waits, shares], sharing=True) == shares
    assert preferred([waits, computes], sharing=True) == computes
    assert preferred([shares, waits, computes]) == computes
    assert preferred([shares, waits]) == preferred([shares, waits], waiting=True) == waits
    assert preferred([shares]) == shares


def test_every_unit_that_waits_or_shares_exists() -> None:
    assert all((ROOT / name).exists() for name in (*WAITING, *SHARING))


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The output of a run of nine modules in which a worker dies, by the number of workers."""
    found = {}
    for workers in (1, 3):
        folder = tmp_path_factory.mktemp("suite")
        for number in range(6):
            (folder / f"a{number}_test.py").write_text(PASSES)
        (folder / "b_test.py").write_text(DIES_ONCE)
        for name in ("first", "second"):
            (folder / f"{name}_test.py").write_text(SUITE)
        found[workers] = run_suite(folder, workers)
    return found


def test_pytest_keeps_a_module_together_and_spreads_parts(outputs: dict[int, str]) -> None:
    ran = [line.split() for line in outputs[3].splitlines() if " PASSED " in line]
    workers = defaultdict(set)
    for worker, *_, test in ran:
        workers[unit(test)].add(worker)
    assert len(ran) == 18 + 12 + 1, outputs[3]
    assert all(len(each) == 1 for each in workers.values())
    assert len(workers) == 6 + 10 + 1


@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_in_which_a_worker_dies_names_the_test_and_ends(outputs: dict[int, str], workers: int) -> None:
    assert "crashed while running 'b_test.py::test_dies'" in outputs[workers]
    assert "1 failed, 31 passed" in outputs[workers]


def run_suite(folder: Path, workers: int) -> str:
    """Return the output of pytest for the tests in `folder`, which are assigned as those of the project are."""
    options = ("-v", "-n", str(workers), "--dist", "loadscope", "-p", "no:cacheprovider")
    config = ("-c", str(ROOT / "pyproject.toml"), "-p", "conftest", "--rootdir", str(folder))
    command = [sys.executable, "-m", "pytest", *options, *config, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120).stdout
