"""Scaffold a service: protos, wiring, calls, a page about itself and a test that runs it in a simulation.

Promises: nothing is written unless all of it can be; what is written passes lint and its own test as it stands.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from tools.scaffolding import ROOT, CannotScaffold, filled, main, plural, run_tool, word, write

from tutti.chassis.rpc.kinds import owners

CLIENT = Path("libs/tutti/client/client.py")
PROJECT = Path("pyproject.toml")
ENTRY_POINTS = '[project.entry-points."tutti.services"]\n'


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
    return filled(targets, of)


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


def scaffold(of: Names) -> list[Path]:
    """Write everything; the paths, new ones first. Raises CannotScaffold before anything is written."""
    check(of)
    changed = {
        PROJECT: registered((ROOT / PROJECT).read_text(), of),
        CLIENT: reachable((ROOT / CLIENT).read_text(), of),
    }
    made = write(files(of) | changed)
    run_tool("tools/genprotos.py")  # what was written imports them
    run_tool("tools/migration.py", "Create the tables")
    return made


def make(given: argparse.Namespace) -> tuple[list[Path], list[str]]:
    of = names(given.name, given.resource or given.name)
    return scaffold(of), [
        ".venv/bin/python tools/golden.py   # record its event",
        ".venv/bin/python tools/pages.py    # show it in docs/",
        f".venv/bin/pytest services/tutti/{of.name}",
        "make lint test",
    ]


if __name__ == "__main__":
    resource = {"help": "what it keeps, singular, such as score; the service's name by default"}
    main(__doc__, {"name": {"help": "one word, such as reward"}, "--resource": resource}, make)
