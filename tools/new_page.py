"""Scaffold a page: what a service keeps of one kind of resource, as a list that is live, with a test of it.

Promises: nothing is written unless all of it can be; what is written passes lint and its own test as it stands.
"""

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template

from tutti.chassis.rpc import kinds

ROOT = Path(__file__).resolve().parents[1]
SCAFFOLD = Path(__file__).parent / "scaffold"


class CannotScaffold(Exception):
    """Why no page was made."""


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
    for path in targets.values():
        if (ROOT / path).exists():
            raise CannotScaffold(f"{path} exists already: add a Get to the routes of {package / 'pages.py'} by hand")
    words = vars(of)
    return {path: Template((SCAFFOLD / f"{name}.txt").read_text()).substitute(words) for name, path in targets.items()}


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
    made = files(of) | {wiring: wired((ROOT / wiring).read_text(), of)}
    for path, text in made.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
    programs, python = Path(sys.executable).parent, [str(path) for path in made if path.suffix == ".py"]
    subprocess.run([programs / "ruff", "check", "--quiet", "--select", "I", "--fix", *python], cwd=ROOT, check=True)
    subprocess.run([programs / "ruff", "format", "--quiet", *python], cwd=ROOT, check=True)
    return list(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("resource", help="a kind of resource in the plural, such as scores")
    try:
        of = names(parser.parse_args().resource)
        written = scaffold(of)
    except CannotScaffold as error:
        parser.error(str(error))
    print("\n".join(f"wrote {path}" for path in written))
    print(f"\nnext:\n  .venv/bin/pytest services/tutti/{of.service}/pages_test.py\n  tutti up, and tutti open")


if __name__ == "__main__":
    main()
