"""Scaffold a service: protos, wiring, calls, a page about itself and a test that runs it in a simulation.

Promises: nothing is written unless all of it can be; what is written passes lint and its own test as it stands.
"""

import argparse
import keyword
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template

from tutti.chassis.rpc.kinds import owners

ROOT = Path(__file__).resolve().parents[1]
SCAFFOLD = Path(__file__).parent / "scaffold"
CLIENT = Path("libs/tutti/client/client.py")
PROJECT = Path("pyproject.toml")
ENTRY_POINTS = '[project.entry-points."tutti.services"]\n'


class CannotScaffold(Exception):
    """Why no service was made."""


@dataclass(frozen=True)
class Names:
    """What a service and its resource are called; the $words of the templates."""

    name: str
    Service: str
    resource: str
    kind: str
    Message: str
    Messages: str


def names(service: str, resource: str) -> Names:
    """Raises CannotScaffold."""
    word("a service", service)
    word("a resource", resource)
    return Names(
        service, service.capitalize(), resource, plural(resource), resource.capitalize(), plural(resource).capitalize()
    )


def word(what: str, name: str) -> None:
    """Raises CannotScaffold for what cannot be a name."""
    if not re.fullmatch(r"[a-z][a-z0-9]{1,30}", name) or keyword.iskeyword(name):
        raise CannotScaffold(
            f"{name!r} cannot name {what}: expected one word of 2 to 31 characters a-z and 0-9, no Python keyword"
        )


def plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def check(of: Names) -> None:
    """Raises CannotScaffold when something has the name already."""
    for folder in (f"services/tutti/{of.name}", f"libs/tutti/{of.name}", f"protos/tutti/{of.name}"):
        if (ROOT / folder).exists():
            raise CannotScaffold(f"{folder} exists already; choose another NAME")
    if of.kind in owners():
        raise CannotScaffold(f"the kind {of.kind!r} belongs to another service; choose another RESOURCE")


def files(of: Names) -> dict[Path, str]:
    """Every file of the service, by its path."""
    package, proto = Path("services/tutti") / of.name, Path("protos/tutti") / of.name / "v1"
    targets = {
        "events.proto": proto / "events.proto",
        "api.proto": proto / f"{of.name}.proto",
        "init.py": package / "__init__.py",
        "main.py": package / "__main__.py",
        "service.py": package / "service.py",
        "rpc.py": package / "rpc.py",
        "service_test.py": package / "service_test.py",
        "README.md": package / "README.md",
    }
    words = vars(of)
    return {path: Template((SCAFFOLD / f"{name}.txt").read_text()).substitute(words) for name, path in targets.items()}


def registered(project: str, of: Names) -> str:
    """pyproject.toml with the entry point, among the others in order. Raises CannotScaffold."""
    before, found, after = project.partition(ENTRY_POINTS)
    block, blank, rest = after.partition("\n\n")
    if not found or not blank:
        raise CannotScaffold(f"{PROJECT} has no block {ENTRY_POINTS.strip()}")
    lines = sorted([*block.splitlines(), f'{of.name} = "tutti.{of.name}.service:build"'])
    return before + found + "\n".join(lines) + blank + rest


def reachable(client: str, of: Names) -> str:
    """The typed client with the service's stub. Raises CannotScaffold."""
    stub = f"{of.Service}ServiceStub"
    edits = (
        ("\n\n__all__ = ", f"\nfrom tutti.contracts.{of.name}.v1.stubs import {stub}\n\n__all__ = "),
        (
            "    @cached_property\n    def admin(",
            f"    @cached_property\n    def {of.name}(self) -> {stub}:\n"
            f'        return {stub}(self.channel("{of.name}"))\n\n    @cached_property\n    def admin(',
        ),
    )
    for anchor, text in edits:
        if client.count(anchor) != 1:
            raise CannotScaffold(f"{CLIENT} has no single {anchor.strip()!r}: add the service there by hand")
        client = client.replace(anchor, text)
    return client


def tidy(paths: list[Path]) -> None:
    """Format what was made as lint wants it, whatever the length of the names."""
    programs = Path(sys.executable).parent
    python = [str(path) for path in paths if path.suffix == ".py"]
    subprocess.run([programs / "ruff", "check", "--quiet", "--select", "I", "--fix", *python], cwd=ROOT, check=True)
    subprocess.run([programs / "ruff", "format", "--quiet", *python], cwd=ROOT, check=True)
    for folder in sorted({path.parent for path in paths if path.suffix == ".proto"}):
        subprocess.run([programs / "buf", "format", "--write", "--path", str(folder)], cwd=ROOT, check=True)


def scaffold(of: Names) -> list[Path]:
    """Write everything; the paths, new ones first. Raises CannotScaffold before anything is written."""
    check(of)
    made = files(of)
    changed = {
        PROJECT: registered((ROOT / PROJECT).read_text(), of),
        CLIENT: reachable((ROOT / CLIENT).read_text(), of),
    }
    for path, text in (made | changed).items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
    tidy([*made, CLIENT])
    subprocess.run([sys.executable, "tools/genprotos.py"], cwd=ROOT, check=True)  # what was written imports them
    subprocess.run([sys.executable, "tools/migration.py", "Create the tables"], cwd=ROOT, check=True)
    return [*made, *changed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", help="one word, such as reward")
    parser.add_argument("--resource", help="what it keeps, singular, such as score; the service's name by default")
    arguments = parser.parse_args()
    try:
        of = names(arguments.name, arguments.resource or arguments.name)
        written = scaffold(of)
    except CannotScaffold as error:
        parser.error(str(error))
    print("\n".join(f"wrote {path}" for path in written))
    print("\nnext:")
    print("  .venv/bin/python tools/golden.py   # record its event")
    print("  .venv/bin/python tools/pages.py    # show it in docs/")
    print(f"  .venv/bin/pytest services/tutti/{of.name}")
    print("  make lint test")


if __name__ == "__main__":
    main()
