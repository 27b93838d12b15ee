"""Scaffold a rank program: its parameters, what its ranks do, and the stage by which recipes ask for it.

Promises: nothing is written unless all of it can be; what is written passes lint and its own test as it stands.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from tools.scaffolding import CannotScaffold, filled, main, word, write

from tutti.chassis.rpc import kinds
from tutti.model.programs import records
from tutti.pipeline.plans.registry import definitions


@dataclass(frozen=True)
class Names:
    """What a program is called; the $words of the templates."""

    name: str
    Name: str


def names(name: str) -> Names:
    """Raises CannotScaffold."""
    word("a program", name)
    if name in records() or name in definitions() or name in kinds.owners():
        raise CannotScaffold(f"there is a program, a stage or a kind of resource {name!r} already; choose another NAME")
    return Names(name, name.capitalize())


def files(of: Names) -> dict[Path, str]:
    """Every file of the program, by its path."""
    targets = {
        "parameters.py": Path("libs/tutti/model/programs") / f"{of.name}.py",
        "program.py": Path("services/tutti/trainer/programs") / f"{of.name}.py",
        "stage.py": Path("services/tutti/pipeline/stages") / f"{of.name}.py",
        "test.py": Path("tests/numerics") / f"{of.name}_test.py",
    }
    return filled(targets, of, "program")


def make(given: argparse.Namespace) -> tuple[list[Path], list[str]]:
    of = names(given.name)
    return write(files(of)), [
        ".venv/bin/python tools/pages.py    # show it in docs/",
        f".venv/bin/pytest tests/numerics/{of.name}_test.py",
    ]


if __name__ == "__main__":
    main(__doc__, {"name": {"help": "one word, such as imitate: the program, and the stage that asks for it"}}, make)
