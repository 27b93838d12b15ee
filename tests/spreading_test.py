"""How tests are spread over workers."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.spreading import unit

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


def test_a_module_is_a_unit_and_so_is_a_part_of_a_campaign() -> None:
    assert unit("tests/a_test.py::test_one[x]") == unit("tests/a_test.py::test_two") == "tests/a_test.py"
    assert unit("tests/a_test.py::test_one[part3]") == unit("tests/a_test.py::test_two[y-part3]")
    assert len({unit(f"tests/a_test.py::test_one[part{part}]") for part in range(12)}) == 12
    assert unit("tests/a_test.py::test_partner[partial]") == "tests/a_test.py"


def test_pytest_keeps_a_module_together_and_spreads_parts(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}_test.py").write_text(SUITE)
    options = ("-v", "-n", "2", "--dist", "loadscope", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
    command = [sys.executable, "-m", "pytest", *options, "-p", "conftest", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    ran = [line.split() for line in done.stdout.splitlines() if " PASSED " in line]
    workers = defaultdict(set)
    for worker, *_, test in ran:
        workers[unit(test)].add(worker)
    assert len(ran) == 12, done.stdout
    assert all(len(each) == 1 for each in workers.values())
    assert len(workers) == 10
