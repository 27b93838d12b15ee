"""Scaffold a page: what a service keeps of one kind of resource, as a list that is live, with a test of it.

Promises: nothing is written unless all of it can be; what is written passes lint and its own test as it stands.
"""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from tools.scaffolding import ROOT, CannotScaffold, filled, main, write

from tutti.chassis.rpc import kinds


@dataclass(frozen=True)
class Names:
    """The $words of the templates. `variable` is the kind as a name in Python."""

    service: str
    plural: str
    Plural: str
    variable: str
    Message: str


def names(plural: str) -> Names:
    """Raises CannotScaffold."""
    owners = kinds.owners()
    if plural not in owners:
        raise CannotScaffold(f"{plural!r} is no kind of resource: expected one of {', '.join(sorted(owners))}")
    variable = plural.replace("-", "_")
    return Names(
        owners[plural], plural, variable.title().replace("_", ""), variable, kinds.named(plural).message.DESCRIPTOR.name
    )


def files(of: Names) -> dict[Path, str]:
    """Every new file, by its path. Raises CannotScaffold when there is one already."""
    package = Path("services/tutti") / of.service
    targets = {
        "pages.py": package / "pages.py",
        "page.html": package / "templates" / f"{of.variable}.html",
        "pages_test.py": package / "pages_test.py",
    }
    for path in (package / "pages.py", package / "pages"):
        if (ROOT / path).exists():
            raise CannotScaffold(f"{path} exists already: add a Get to its routes by hand")
    return filled(targets, of)


def wired(service: str, of: Names) -> str:
    """service.py with the pages. Raises CannotScaffold where it is written in another way than most."""
    resource = re.search(rf"resources=\[[^\]]*?((?:\w+\.)*{of.variable})\b", service)
    if not resource or service.count("    return Service(\n") != 1:
        raise CannotScaffold(
            f"services/tutti/{of.service}/service.py has no single `return Service(` whose `resources` name "
            f"{of.variable}: add `pages={of.Plural}Pages(host, ...).site` there by hand"
        )
    imported = re.sub(
        r"\n\n\ndef ", f"\nfrom tutti.{of.service}.pages import {of.Plural}Pages\n\n\ndef ", service, count=1
    )
    made = f"        pages={of.Plural}Pages(host, {resource[1]}).site,\n    )\n"
    head, call, rest = imported.partition("    return Service(\n")
    return head + call + rest.replace("    )\n", made, 1)


def scaffold(of: Names) -> list[Path]:
    """Write everything; the paths, new ones first. Raises CannotScaffold before anything is written."""
    wiring = Path("services/tutti") / of.service / "service.py"
    return write(files(of) | {wiring: wired((ROOT / wiring).read_text(), of)})


def make(given: argparse.Namespace) -> tuple[list[Path], list[str]]:
    of = names(given.resource)
    return scaffold(of), [f".venv/bin/pytest services/tutti/{of.service}/pages_test.py", "tutti up, and tutti open"]


if __name__ == "__main__":
    main(__doc__, {"resource": {"help": "a kind of resource in the plural, such as scores"}}, make)
