"""Scaffold a rank program: its parameters, what its ranks do, and the stage by which recipes ask for it.

Promises: nothing is written unless all of it can be; what is written passes lint and its own test as it stands.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from string import Template

from tools.new_service import ROOT, SCAFFOLD, CannotScaffold, tidy, word

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
    of = Names(name, name.capitalize())
    for path in files(of):
        if (ROOT / path).exists():
            raise CannotScaffold(f"{path} exists already; choose another NAME")
    return of


def files(of: Names) -> dict[Path, str]:
    """Every file of the program, by its path."""
    targets = {
        "parameters.py": Path("libs/tutti/model/programs") / f"{of.name}.py",
        "program.py": Path("services/tutti/trainer/programs") / f"{of.name}.py",
        "stage.py": Path("services/tutti/pipeline/stages") / f"{of.name}.py",
        "test.py": Path("tests/numerics") / f"{of.name}_test.py",
    }
    templates = SCAFFOLD / "program"
    return {
        path: Template((templates / f"{name}.txt").read_text()).substitute(vars(of)) for name, path in targets.items()
    }


def scaffold(of: Names) -> list[Path]:
    made = files(of)
    for path, text in made.items():
        (ROOT / path).write_text(text)
    tidy(list(made))
    return list(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", help="one word, such as imitate: the program, and the stage that asks for it")
    arguments = parser.parse_args()
    try:
        of = names(arguments.name)
    except CannotScaffold as error:
        parser.error(str(error))
    print("\n".join(f"wrote {path}" for path in scaffold(of)))
    print("\nnext:")
    print("  .venv/bin/python tools/pages.py    # show it in docs/")
    print(f"  .venv/bin/pytest tests/numerics/{of.name}_test.py")


if __name__ == "__main__":
    main()
