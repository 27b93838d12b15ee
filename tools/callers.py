"""Lint: a method that machines may call has a machine that calls it.

A role that nobody needs is a door for whoever steals the credential of one node or one service.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tutti.chassis.events.catalog import every_message
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc import kinds
from tutti.chassis.rpc.methods import Method, methods_of

ROOT = Path(__file__).resolve().parents[1]
AGENTS = "services/tutti/trainer"
PLACES = {Role.AGENT: (AGENTS, "libs/tutti"), Role.SERVICE: ("services/tutti", "libs/tutti")}
"""The folders whose code runs in a process with the credential of a role; that of agents is no service's."""
PEOPLES = frozenset({"cli", "report", "commands", "client", "contracts"})
"""Folders in them whose code runs for people, unless other code imports it, or only declares."""
_IMPORTS = (ast.Import, ast.ImportFrom)
VERBS = ("Create", "Get", "List", "Cancel")
"""Of a kind of resource: services call them by the kind's name (`tutti.chassis.rpc.kinds`)."""


def uncalled(methods: Iterable[Method]) -> Iterator[tuple[Method, Role]]:
    """Each of these methods and each role of machines that may call it, where no code of theirs does."""
    by_kind = {f"{verb}{name}" for kind in kinds.every_kind() for verb in VERBS for name in _names(kind)}
    for method in methods:
        for role in sorted(method.roles & PLACES.keys(), key=lambda role: role.value):
            if role is Role.SERVICE and method.name in by_kind:
                continue
            if method.name not in _called(role):
                yield method, role


def every_method() -> list[Method]:
    """The methods of every service that the protos declare."""
    found: dict[str, Any] = {}
    for message in every_message():
        for descriptor in message.DESCRIPTOR.file.services_by_name.values():
            found[descriptor.full_name] = descriptor
    return [method for name in sorted(found) for method in methods_of(found[name])]


def _names(kind: kinds.Kind) -> Iterable[str]:
    plural = "".join(word.capitalize() for word in kind.plural.split("-"))
    return kind.singular, plural


@cache
def _called(role: Role) -> frozenset[str]:
    """The names of attributes that the sources of a role read, as `stub.GetJob` does, and the ends of paths."""
    found = [path for folder in PLACES[role] for path in (ROOT / folder).rglob("*.py")]
    found = [path for path in found if not path.stem.endswith("_test")]
    if role is not Role.AGENT:
        found = [path for path in found if not path.is_relative_to(ROOT / AGENTS)]
    waiting = [path for path in found if PEOPLES.isdisjoint(path.relative_to(ROOT).parts)]
    seen, names = set(waiting), set[str]()
    while waiting:
        tree = ast.parse(waiting.pop().read_text())
        names |= set(_named(tree))
        for path in _imported(tree) - seen:
            seen.add(path)
            waiting.append(path)
    return frozenset(names)


def _imported(tree: ast.AST) -> set[Path]:
    """The modules of the command line and of reports that a module imports."""
    names = {
        f"{node.module}.{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("tutti.cli", "tutti.report"))
        for each in node.names
    }
    paths = {Path(ROOT, "libs", *name.split(".")) for name in names}
    return {
        path.with_suffix(".py") for each in paths for path in (each, each.parent) if path.with_suffix(".py").exists()
    }


def _named(tree: ast.AST) -> Iterator[str]:
    imported = {
        each.asname or each.name for node in ast.walk(tree) if isinstance(node, _IMPORTS) for each in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if not (isinstance(node.value, ast.Name) and node.value.id in imported):  # a class of a module is no method
                yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "/" in node.value:
            yield node.value.rpartition("/")[2]


def main() -> int:
    """1 if there is such a method, else 0; prints which."""
    found = list(uncalled(every_method()))
    for method, role in found:
        print(f"{method.path}: nothing calls it with the role {role.value}: remove ROLE_{role.name} from its option")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
