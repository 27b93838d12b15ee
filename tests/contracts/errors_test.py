"""Every reason that a service may refuse for is in the catalogue, and so on the page."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

from tests.contracts.conftest import ROOT
from tools import pages

from tutti.chassis.errors import CATALOGUE


def refusals() -> Iterator[tuple[Path, ast.expr]]:
    """The reason of each `Refused(reason, ...)` of the product."""
    for root in ("libs", "services"):
        for path in sorted((ROOT / root).rglob("*.py")):
            if path.name.endswith("_test.py") or "contracts" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused":
                    yield path, node.args[0]


def value(path: Path, reason: ast.expr) -> str | None:
    """A literal, or a constant of a module; None for what is only known when it runs."""
    if isinstance(reason, ast.Constant):
        return str(reason.value)
    *parents, last = ast.unparse(reason).split(".")
    if not last.isupper():
        return None
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    owner: object = importlib.import_module(".".join(parts))
    for name in (*parents, last):
        owner = getattr(owner, name)
    return str(owner)


def test_every_reason_of_a_refusal_is_in_the_catalogue() -> None:
    pages.builds()
    found = {reason: path.name for path, node in refusals() if (reason := value(path, node)) is not None}
    assert len(found) >= 5
    assert {reason: place for reason, place in found.items() if reason not in CATALOGUE} == {}


def test_reasons_are_written_alike_and_say_something() -> None:
    pages.builds()
    for reason, meaning in CATALOGUE.items():
        assert reason.isupper()
        assert reason.isascii()
        assert len(meaning.split()) >= 3, reason
