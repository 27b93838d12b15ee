"""Scaffold a stage: a kind of work at a service, with its calls, and the definition by which recipes ask for it.

Promises: nothing is written unless all of it can be; what is written passes lint and its own test as it stands.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from tools.scaffolding import ROOT, CannotScaffold, filled, main, plural, run_tool, word, write

from tutti.chassis.rpc import kinds
from tutti.pipeline.plans.registry import definitions


@dataclass(frozen=True)
class Names:
    """What a stage, its work and what it reads are called; the $words of the templates."""

    name: str
    service: str
    kind: str
    Message: str
    Messages: str
    reads: str
    Reads: str
    reads_plural: str
    reads_owner: str


def names(name: str, service: str, reads: str) -> Names:
    """Raises CannotScaffold."""
    word("a stage", name)
    if not (ROOT / "services/tutti" / service / "service.py").exists():
        raise CannotScaffold(f"there is no service {service!r}; make one with `make new-service NAME={service}`")
    made = {kind.singular.lower(): kind for kind in kinds.every_kind() if kind.manifest}
    if reads not in made:
        raise CannotScaffold(f"no stage makes a {reads!r}; a stage can read one of {', '.join(sorted(made))}")
    if name in definitions() or plural(name) in kinds.owners():
        raise CannotScaffold(f"there is a stage or a kind of resource {name!r} already; choose another NAME")
    kind = made[reads]
    return Names(
        name=name,
        service=service,
        kind=plural(name),
        Message=name.capitalize(),
        Messages=plural(name).capitalize(),
        reads=reads,
        Reads=kind.singular,
        reads_plural=kind.plural,
        reads_owner=kind.owner,
    )


def files(of: Names) -> dict[Path, str]:
    """Every file of the stage, by its path."""
    service = Path("services/tutti") / of.service
    targets = {
        "kind.proto": Path("protos/tutti") / of.service / "v1" / f"{of.name}.proto",
        "work.py": service / f"{of.name}.py",
        "work_test.py": service / f"{of.name}_test.py",
        "stage.py": Path("services/tutti/pipeline/stages") / f"{of.name}.py",
    }
    return filled(targets, of, "stage")


def make(given: argparse.Namespace) -> tuple[list[Path], list[str]]:
    of = names(given.name, given.service, given.reads)
    made = write(files(of))
    run_tool("tools/genprotos.py")
    return made, [
        f"let services/tutti/{of.service}/service.py serve it, and its README.md name it",
        ".venv/bin/python tools/golden.py   # record its event",
        ".venv/bin/python tools/pages.py    # show it in docs/",
        f".venv/bin/pytest services/tutti/{of.service}/{of.name}_test.py",
    ]


if __name__ == "__main__":
    main(
        __doc__,
        {
            "name": {"help": "one word, such as score: the kind of the stage and of its work"},
            "--service": {"required": True, "help": "that does the work, such as sampling"},
            "--reads": {"default": "checkpoint", "help": "the kind of resource that it reads"},
        },
        make,
    )
