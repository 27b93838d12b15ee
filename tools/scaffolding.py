"""What every scaffold does: check names, fill templates, write files, format them, say what comes next.

Promises: nothing is written unless all of it can be.
"""

import argparse
import keyword
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parents[1]
SCAFFOLD = Path(__file__).parent / "scaffold"


class CannotScaffold(Exception):
    """Why nothing was made."""


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


def filled(targets: Mapping[str, Path], names: object, folder: str = "") -> dict[Path, str]:
    """Return the text of each new file by its path; `targets` has the path by template, `names` the $words of these.

    Raises CannotScaffold if one of the files exists.
    """
    for path in targets.values():
        if (ROOT / path).exists():
            raise CannotScaffold(f"{path} exists already; choose another name")
    templates = SCAFFOLD / folder
    return {
        path: Template((templates / f"{name}.txt").read_text()).substitute(vars(names))
        for name, path in targets.items()
    }


def write(texts: Mapping[Path, str]) -> list[Path]:
    """Write the files, formatted as lint wants them, whatever the length of the names; return their paths."""
    for path, text in texts.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
    programs = Path(sys.executable).parent
    python = [str(path) for path in texts if path.suffix == ".py"]
    subprocess.run([programs / "ruff", "check", "--quiet", "--select", "I", "--fix", *python], cwd=ROOT, check=True)
    subprocess.run([programs / "ruff", "format", "--quiet", *python], cwd=ROOT, check=True)
    for folder in sorted({path.parent for path in texts if path.suffix == ".proto"}):
        subprocess.run([programs / "buf", "format", "--write", "--path", str(folder)], cwd=ROOT, check=True)
    return list(texts)


def run_tool(*command: str) -> None:
    """Run one of our tools in the tree. Raises CalledProcessError."""
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)


def main(
    description: str | None,
    arguments: Mapping[str, Mapping[str, object]],
    make: Callable[[argparse.Namespace], tuple[Sequence[Path], Sequence[str]]],
) -> None:
    """Run a scaffold from the command line: `make` returns the paths that it wrote and the commands that come next."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0] if description else None)
    for name, options in arguments.items():
        parser.add_argument(name, **options)  # type: ignore[arg-type]
    try:
        written, following = make(parser.parse_args())
    except CannotScaffold as error:
        parser.error(str(error))
    print("\n".join(f"wrote {path}" for path in written))
    print("\nnext:", *(f"  {each}" for each in following), sep="\n")
