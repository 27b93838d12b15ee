"""What the pages say of the tree is true of the tree."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from tests.contracts.conftest import ROOT
from tests.contracts.methods_test import METHODS
from tools import pages

from tutti.chassis.config.settings import load
from tutti.chassis.rpc.methods import find_method
from tutti.chassis.service import Service
from tutti.cli.app import build
from tutti.cli.classifierrecipe import KEYS
from tutti.client import Unreachable
from tutti.pipeline.recipes import recipe
from tutti.pipeline.recipes.sizes import SIZES

SERVICES = sorted(path.parent.name for path in ROOT.glob("services/tutti/*/service.py"))
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("services/tutti/*/README.md")],
    key=lambda path: path.as_posix(),
)
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
COMMAND = re.compile(r"^    tutti ([a-z ]+?)(?= [A-Z#-]|  | recipes| checkpoints/|$)", re.MULTILINE)
OPERATIONS = [page for page in PAGES if "docs/operations" in page.as_posix() and COMMAND.search(page.read_text())]
REFERENCE = pages.api_page(pages.parsed())
ARCHITECTURE, API, RECIPES = ((ROOT / f"docs/{page}.md").read_text() for page in ("architecture", "api", "recipes"))


@pytest.fixture(scope="module")
def services() -> dict[str, Service]:
    return {service.name: service for service in pages.services()}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def section(title: str, page: str = ARCHITECTURE) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    missing = [each for each in targets if "://" not in each and not (page.parent / each).exists()]
    assert missing == []


def test_the_files_in_which_an_event_is_followed_have_the_names_that_the_page_says() -> None:
    steps = re.findall(r"^(\d)\. `([^`]+)`:? (.+)$", section("Follow an event"), flags=re.MULTILINE)
    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    assert len(steps) >= 2
    for _, path, words in steps:
        text = (ROOT / path).read_text()
        for symbol in re.findall(r"`(\w+)`", words):
            assert re.search(rf"(def|message|class) {symbol}\b", text), f"{path} has no {symbol}"


def test_the_packages_exist() -> None:
    folders = re.findall(r"^\| (`.+?`) \|", section("Packages"), flags=re.MULTILINE)
    assert folders
    for folder in re.findall(r"`([^`]+)`", " ".join(folders)):
        assert (ROOT / folder.partition("<")[0]).is_dir(), folder


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize("page", [ROOT / "README.md", *OPERATIONS], ids=name)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    for words in COMMAND.findall(page.read_text()):
        command: click.Command = build()
        for word in words.split():
            assert isinstance(command, click.Group), words
            command = command.commands[word]
        assert not isinstance(command, click.Group) or command.invoke_without_command, words


@pytest.mark.parametrize("name", METHODS)
def test_a_call_is_in_the_reference_with_roles_options_and_fields(name: str) -> None:
    service, _, short = name.rpartition(".")
    rows = re.findall(
        rf"^\| `{short}` \| .+ \| .+ \| (.*) \| (.+) \| (.+) \|$", section(service, REFERENCE), re.MULTILINE
    )
    assert len(rows) == 1
    options, roles, words = rows[0]
    method = find_method(f"/{service}/{short}")
    assert method is not None
    assert set(roles.split(", ")) == {role.value for role in method.roles}
    declared = {"again": method.retry, "long": method.long, "stream": method.streams}
    assert options == ", ".join(word for word, holds in declared.items() if holds)
    assert words.strip()
    for message in (METHODS[name].input_type, METHODS[name].output_type):
        listed = re.findall(
            rf"^\| `{message.name}` \| `(\w+)` \|", section(f"Fields of {message.file.package}", REFERENCE), re.M
        )
        assert listed == [field.name for field in message.fields]


def test_the_lines_of_python_that_call_a_platform_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = re.findall(r"^      (from .+|with .+|    print.+)$", API, flags=re.MULTILINE)
    assert len(lines) == 6
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unreachable, match="tutti up"):
        exec("\n".join(lines), {})  # noqa: S102 - lines of our own page


def test_the_call_of_grpcurl_exists() -> None:
    found = re.findall(r" (tutti[.\w]+)/(\w+)$", API, flags=re.MULTILINE)
    assert [find_method(f"/{service}/{name}") is not None for service, name in found] == [True]


def test_every_key_of_a_recipe_is_on_its_page_with_its_meaning() -> None:
    for title, keys in (("Keys", recipe.keys()), ("Classifiers", KEYS)):
        page = section(title, RECIPES)
        rows = re.findall(r"^\| `([\w.]+)` \| .+ \| .+ \| .* \| (.+) \|$", page, flags=re.MULTILINE)
        assert [key for key, _ in rows] == list(keys)
        assert all(meaning.strip() for _, meaning in rows)
    assert re.findall(r"^\| (\w+) \| \d", RECIPES, flags=re.MULTILINE) == list(SIZES)


def test_the_settings_of_a_page_are_settings_in_a_file_and_in_the_environment(tmp_path: Path) -> None:
    text = (ROOT / "docs/operations.md").read_text()
    block = re.findall(r"^    (\[.+\]|\w+ = .+)$", text, flags=re.MULTILINE)
    (tmp_path / "tutti.toml").write_text("\n".join(block))
    spoken = dict(re.findall(r"# (TUTTI_\w+)=([\w.:]+)", "\n".join(block)))
    assert len(spoken) == 3
    from_file = load(tmp_path / "tutti.toml", environment={}).values
    assert from_file == load(environment=spoken).values != load(environment={}).values


def test_every_dependency_has_its_line() -> None:
    """A page names `grpcio, -status` for grpcio-status; types of others are named together."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    groups = project["dependency-groups"].values()
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(each for some in (*extras, *groups) for each in some),
    ]
    names = {re.split(r"[<>=\[]", each)[0] for each in wanted} - {project["project"]["name"]}
    table = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/dependencies.md").read_text(), flags=re.MULTILINE)
    known = set[str]()
    for cell in table:
        words = [word for word in re.split(r"[,\s]+", re.sub(r"\(.*?\)", "", cell)) if word]
        known |= {words[0] + word if word.startswith("-") else word for word in words}
    assert sorted(name for name in names - known if not name.startswith("types-")) == []
    assert "types-*" in known


def test_a_decision_is_numbered_once() -> None:
    numbers = [path.name[:4] for path in sorted(ROOT.glob("docs/adr/*.md"))]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    for path in ROOT.glob("docs/adr/*.md"):
        assert re.findall(r"^## (.+)$", path.read_text(), flags=re.MULTILINE) == ["Context", "Decision", "Consequences"]


@pytest.mark.parametrize("service", SERVICES)
def test_the_page_of_a_service_names_what_it_serves_keeps_emits_and_hears(
    service: str, services: dict[str, Service]
) -> None:
    text, found = (ROOT / "services/tutti" / service / "README.md").read_text(), services[service]
    wanted = [served.descriptor.name for served in found.serves] + [fact.DESCRIPTOR.name for fact in found.facts]
    wanted += [resource.kind for resource in found.resources]
    assert [word for word in wanted if word not in text] == []
    heard = [consumed.message.DESCRIPTOR.name for consumed in found.consumes]
    unnamed = [word for word in heard if word.lower() not in text.lower()]
    assert unnamed == [] or "docs/events.md#who-hears-what" in text


def test_there_are_few_short_examples() -> None:
    assert 3 <= len(EXAMPLES) <= 5
    assert all(len(path.read_text().splitlines()) <= 50 for path in EXAMPLES)


def test_lint_checks_the_types_of_examples() -> None:
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert checked["strict"]
    assert all(path.relative_to(ROOT).parts[0] in checked["files"] for path in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_an_example_without_a_platform_says_so(example: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("name: x\n")
    about = ["recipe.yaml"] if example.stem != "list_checkpoints" else []
    command = [sys.executable, str(example), *about, "--data-dir", str(tmp_path / ".tutti")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "tutti up" in result.stderr
    assert not (tmp_path / ".tutti").exists()


@pytest.mark.parametrize("arguments", [(), ("missing.yaml",)], ids=["nothing", "a missing file"])
def test_an_example_says_what_it_was_not_given(arguments: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "run_recipe.py"), *arguments]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode in (1, 2)
    assert "Traceback" not in result.stderr
    assert (arguments[0] if arguments else "are required: recipe\n") in result.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_an_example_has_help(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(example), "--help"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=True)
    assert result.stdout.startswith("usage: ")
