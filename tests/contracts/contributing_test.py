"""docs/extending.md does what it says: its code blocks are run, in their order, in a copy of this tree."""

import ast
import re
from dataclasses import dataclass, replace

import pytest
from tests.contracts.conftest import ROOT, Tree


@dataclass(frozen=True)
class Block:
    section: str
    language: str
    code: str


def blocks() -> list[Block]:
    found = []
    for section in re.split(r"^## ", (ROOT / "docs/extending.md").read_text(), flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        fences = re.findall(r"^```(\w+)\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
        found += [Block(title, language, code) for language, code in fences]
    return found


ONCE = ("tools/house.py imports", "tools/pages.py")
"""Lines that check or write the same of the whole tree in several sections."""


def without_repetitions(steps: list[Block]) -> list[Block]:
    """Return the steps with each of the lines `ONCE` where it comes last."""
    found, seen = list[Block](), set[str]()
    for step in reversed(steps):
        lines = []
        for line in reversed(step.code.splitlines()):
            tool = next((each for each in ONCE if line.endswith(each)), "")
            if tool not in seen:
                lines.append(line)
            if tool:
                seen.add(tool)
        found.append(replace(step, code="\n".join([*reversed(lines), ""])))
    return found[::-1]


STAGE, PROGRAM, PAGE = "Add a stage", "Add a program", "Add a page"


def carried_out(tree: Tree, steps: list[Block]) -> None:
    for step in steps:
        result = tree.sh(step.code)
        assert result.returncode == 0, f"{step.code}\n{result.stdout}\n{result.stderr}"


def checked(tree: Tree, *commands: tuple[str, ...]) -> None:
    for command in commands:
        result = tree.run(*command)
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"


def texts(tree: Tree) -> dict[str, str]:
    """The text files of a tree that people write: no generated code, golden events, generated pages and tests."""
    generated = ("libs/tutti/contracts/", "tests/contracts/golden/", "tests/contracts/events.txt", "build/", ".venv")
    pages = tuple(f"docs/{name}.md" for name in ("events", "errors", "api", "conventions", "recipes"))
    found = (
        path for path in tree.path.rglob("*") if path.is_file() and path.suffix in (".py", ".md", ".proto", ".toml")
    )
    named = {path.relative_to(tree.path).as_posix(): path for path in found}
    kept = {name: path for name, path in named.items() if not name.startswith((*generated, *pages))}
    return {name: path.read_text() for name, path in kept.items() if not name.endswith("_test.py")}


def edited(tree: Tree, steps: list[Block], what: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The files of before that the steps change; both they and the new ones are printed."""
    before = texts(tree)
    carried_out(tree, steps)
    after = texts(tree)
    changed = sorted(name for name, text in before.items() if after[name] != text)
    with capsys.disabled():
        print(f"\n{what}: {len(changed)} files edited: {', '.join(changed)}")
        print(f"  and {len(after) - len(before)} written: {', '.join(sorted(after.keys() - before.keys()))}")
    return changed


def test_a_service_an_event_a_stage_a_program_and_a_page_can_be_added_as_described(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = without_repetitions([block for block in blocks() if block.language == "sh"])
    assert {block.section for block in steps} == {"Add a service", "Add an event", STAGE, PROGRAM, PAGE}
    carried_out(tree, [step for step in steps if step.section not in (STAGE, PROGRAM, PAGE)])
    stage = [step for step in steps if step.section == STAGE]
    assert edited(tree, stage, "a stage with a kind of work of its own", capsys) == [
        "services/tutti/sampling/README.md",
        "services/tutti/sampling/service.py",
    ]
    program = [step for step in steps if step.section == PROGRAM]
    assert edited(tree, program, "a program with its stage", capsys) == []
    page = [step for step in steps if step.section == PAGE]
    assert edited(tree, page, "a page", capsys) == ["services/tutti/reward/service.py"]
    made = (
        "services/tutti/reward",
        "services/tutti/sampling",
        "services/tutti/pipeline",
        "services/tutti/trainer",
        "libs/tutti/model",
        "tests/numerics",
        "libs/tutti/client/client.py",
    )
    read = (
        "from tutti.pipeline.plans import graph, reading\n"
        "recipe = reading.parse({'stages': {'critique': {'from': 'checkpoints/a/0/5', 'note': 'short'}}})\n"
        "assert [node.name for node in graph.nodes(recipe)] == ['critique']\n"
        "from tutti.chassis.rpc.kinds import owners\n"
        "from tutti.cli.nouns import BY_PLURAL\n"
        "from tutti.lineage.graph import KINDS\n"
        "assert owners()['critiques'] == 'sampling' and 'critiques' in BY_PLURAL\n"
        "assert 'critiques' in [kind.plural for kind in KINDS]\n"
    )
    checked(
        tree,
        ("ruff", "check", *made),
        ("ruff", "format", "--check", *made),
        ("buf", "lint"),
        ("python", "-c", read),
        ("python", "tools/migration.py", "--check"),
        ("pytest", "-q", "tests/house", "tests/contracts/events_test.py", "-k", "entry_point or rules or moved"),
        (
            "pytest",
            "-q",
            "libs/tutti/chassis/rpc/kinds_test.py",
            "tests/contracts/docs_test.py",
            "-k",
            "critiques or sampling",
        ),
    )


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
    unchanged: Tree, arguments: tuple[str, ...], words: str
) -> None:
    before = sorted(path for path in unchanged.path.rglob("*.py") if ".venv" not in path.parts)
    result = unchanged.run("python", "-m", "tools.new_service", *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert sorted(path for path in unchanged.path.rglob("*.py") if ".venv" not in path.parts) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("Critique", "--service", "sampling"), "one word"),
        (("critique", "--service", "nobody"), "there is no service"),
        (("sample", "--service", "sampling"), "already"),
        (("checkpoints", "--service", "sampling", "--reads", "song"), "no stage makes"),
        (("exporting", "--service", "sampling"), "exists already"),
        (("critique",), "required"),
    ],
)
def test_a_stage_that_cannot_be_is_refused_and_nothing_is_written(
    unchanged: Tree, arguments: tuple[str, ...], words: str
) -> None:
    before = texts(unchanged)
    result = unchanged.run("python", "-m", "tools.new_stage", *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert texts(unchanged) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("Imitate",), "one word"), (("sft",), "already"), (("sample",), "already"), (("program",), "exists already")],
)
def test_a_program_that_cannot_be_is_refused_and_nothing_is_written(
    unchanged: Tree, arguments: tuple[str, ...], words: str
) -> None:
    before = texts(unchanged)
    result = unchanged.run("python", "-m", "tools.new_program", *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert texts(unchanged) == before


@pytest.mark.parametrize(("kind", "words"), [("runs", "exists already"), ("songs", "no kind of resource")])
def test_a_page_that_cannot_be_is_refused_and_nothing_is_written(unchanged: Tree, kind: str, words: str) -> None:
    before = texts(unchanged)
    result = unchanged.run("python", "-m", "tools.new_page", kind)
    assert result.returncode == 2
    assert words in result.stderr
    assert texts(unchanged) == before
