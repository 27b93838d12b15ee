"""CONTRIBUTING does what it says: its code blocks are run, in their order, in a copy of this tree."""

import ast
import re
from dataclasses import dataclass

import pytest
from tests.contracts.conftest import ROOT, Tree


@dataclass(frozen=True)
class Block:
    section: str
    language: str
    code: str


def blocks() -> list[Block]:
    found = []
    for section in re.split(r"^## ", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        fences = re.findall(r"^```(\w+)\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
        found += [Block(title, language, code) for language, code in fences]
    return found


def test_a_service_and_an_event_can_be_added_as_described(tree: Tree) -> None:
    steps = [block for block in blocks() if block.language == "sh"]
    assert {block.section for block in steps} == {"Add a service", "Add an event"}
    for step in steps:
        result = tree.sh(step.code)
        assert result.returncode == 0, f"{step.code}\n{result.stdout}\n{result.stderr}"
    made = ("services/tutti/reward", "libs/tutti/chassis/client.py")
    for check in (
        ("ruff", "check", *made),
        ("ruff", "format", "--check", *made),
        ("pytest", "-q", "tests/house", "tests/contracts/events_test.py", "-k", "entry_point or rules or moved"),
    ):
        result = tree.run(*check)
        assert result.returncode == 0, f"{check}\n{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize(
    "block", [each for each in blocks() if each.language == "python"], ids=lambda each: each.section
)
def test_python_in_it_is_python(block: Block) -> None:
    ast.parse(block.code)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("Reward",), "one word"),
        (("class",), "one word"),
        (("scheduler",), "exists already"),
        (("trainer",), "exists already"),
        (("common",), "exists already"),
        (("reward", "--resource", "job"), "belongs to another service"),
        ((), "required"),
    ],
)
def test_a_service_that_cannot_be_is_refused_and_nothing_is_written(
    tree: Tree, arguments: tuple[str, ...], words: str
) -> None:
    before = sorted(path for path in tree.path.rglob("*.py") if ".venv" not in path.parts)
    result = tree.run("python", "tools/new_service.py", *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert sorted(path for path in tree.path.rglob("*.py") if ".venv" not in path.parts) == before
