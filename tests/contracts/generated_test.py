"""What is generated is what would be generated now, and what a release promised is not taken back."""

import subprocess
import sys
from pathlib import Path

from tests.contracts.conftest import PROGRAMS, ROOT, Tree

BUF = str(PROGRAMS / "buf")
EVENTS = "protos/tutti/scheduler/v1/events.proto"


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"tools/{name}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)


def test_generated_pages_are_current() -> None:
    """`make lint` checks the generated code."""
    result = tool("pages.py", "--check")
    assert result.returncode == 0, result.stderr


def test_generated_code_that_nobody_committed_is_seen(tree: Tree) -> None:
    extra = tree.path / "libs/tutti/contracts/scheduler/v1/forgotten_pb2.py"
    extra.write_text("")
    result = tree.run(sys.executable, "tools/genprotos.py", "--check")
    assert result.returncode != 0
    assert "scheduler/v1/forgotten_pb2.py" in result.stderr


def test_the_baseline_holds_against_its_own_protos_and_refuses_a_removed_field(tree: Tree) -> None:
    assert tree.run("make", "baseline").returncode == 0
    breaking = (BUF, "breaking", "--against", "protos/baseline.binpb")
    same = tree.run(*breaking)
    assert same.returncode == 0, same.stdout
    grown = "  string kernel = 10;\n"
    tree.edit(EVENTS, grown, f"{grown}  // zone it stands in.\n  string zone = 113;\n")
    assert tree.run(*breaking).returncode == 0
    tree.edit(EVENTS, "  // kernel signature digest.\n" + grown, "")
    removed = tree.run(*breaking)
    assert removed.returncode != 0
    assert '"10" with name "kernel"' in removed.stdout


def test_an_event_that_changed_is_not_recorded_over(tree: Tree) -> None:
    tree.edit(EVENTS, "  string kernel = 10;", "  string kernel = 99;")
    assert tree.run("make", "protos").returncode == 0
    result = tree.run(sys.executable, "tools/golden.py")
    assert result.returncode != 0
    assert "Contracts only grow" in result.stderr


def test_another_number_of_partitions_is_not_recorded_over(tree: Tree) -> None:
    path = Path("protos/tutti/dedup/v1/events.proto")
    tree.edit(str(path), "partitions: 12", "partitions: 24")
    assert tree.run("make", "protos").returncode == 0
    result = tree.run(sys.executable, "tools/golden.py")
    assert result.returncode != 0
    assert "That is a new topic" in result.stderr
