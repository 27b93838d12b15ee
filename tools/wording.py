"""Words that make readers stop, and missing docstrings: counts that may only fall.

Docstrings, errors, log messages and help texts are read: `python -m tools.wording` fails where a phrase of DENIED is
used more often than `tests/house/wording.json` allows, where a name that another room imports has no docstring, beyond
the number allowed, and where the file allows more than there is. `--list` shows the places, `--lower` lowers the file.
"""

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.house import ROOT, sources

DENIED = {
    "a person for a process": r"(?i)\b(?:whoever|whomever|somebody|nobody|everybody)\b",
    "who or what as a noun": r"\b(?:for|by|to|of|from|with|at|after|before|than|on) (?:what|who|whom)\b",
    "a sentence that begins with What, Who, Whether or How": r"(?:^|[.:;]\s+)(?:What|Who|Whether|How) (?!to\b)",
    "word for a heartbeat or a message": r"\b(?:gives?|gave|given|no) word\b",
    "in vain": r"\bin vain\b",
    "tells, told": r"\b(?:tells?|told)\b",
    "stands, lies": r"\b(?:stands?|stood|lies)\b",
    "is to be": r"\b(?:is|are|was|were) to be\b",
    "ever more": r"\bever (?:more|less)\b",
    "meanwhile": r"\bmeanwhile\b",
    "goes on": r"\b(?:goes|go|went|going) on\b",
    "so many": r"\bso (?:many|much)\b",
}
"""Phrases by name; each is a regular expression. STYLE: the words that an engineer would search for."""
UNDOCUMENTED = "imported from another room without a docstring"
ALLOWED = ROOT / "tests" / "house" / "wording.json"
LOGS = {"debug", "info", "warning", "error", "exception", "critical"}


@dataclass(frozen=True)
class Use:
    """A phrase in a text of a source."""

    name: str
    place: str
    text: str


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines and texts of docstrings, of what is raised and logged, and of help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _strings(node.exc)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in LOGS:
                yield from _strings(node)
            for keyword in node.keywords:
                if keyword.arg in ("help", "expected", "description"):
                    yield from _strings(keyword.value)


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.lineno, each.value


def denied(source: str, place: str) -> Iterator[Use]:
    """The phrases of DENIED in one source."""
    for line, text in texts(ast.parse(source)):
        for name, pattern in DENIED.items():
            for found in re.finditer(pattern, text, re.MULTILINE):
                begin, end = max(found.start() - 40, 0), found.end() + 40
                yield Use(name, f"{place}:{line}", " ".join(text[begin:end].split()))


def undocumented(every: dict[str, str]) -> Iterator[Use]:
    """Functions and classes without a docstring that a module of another room imports; sources by module name."""
    trees = {module: ast.parse(source) for module, source in every.items()}
    lacking = {
        (module, node.name): node.lineno
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node) is None
    }
    seen = set[tuple[str, str]]()
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and room(node.module) != room(module):
                seen |= {(node.module, alias.name) for alias in node.names} & lacking.keys()
    for module, name in sorted(seen):
        yield Use(UNDOCUMENTED, f"{module}:{lacking[module, name]}", name)


def room(module: str) -> str:
    """The folder of a module, as a dotted name."""
    return module.rpartition(".")[0]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def uses() -> list[Use]:
    """All of the product's sources."""
    every = {path: path.read_text() for path in sources()}
    found = [use for path, text in every.items() for use in denied(text, path.relative_to(ROOT).as_posix())]
    return found + list(undocumented({module_of(path): text for path, text in every.items()}))


def compared(counts: Counter[str], allowed: dict[str, int]) -> list[str]:
    """The complaints about counts: of more than is allowed, and of an allowance that is higher than the count."""
    found = []
    for name in sorted(counts.keys() | allowed.keys()):
        count, most = counts[name], allowed.get(name, 0)
        if count > most:
            found.append(f"{name}: {count} uses, {most} allowed; rewrite the new ones (--list shows all)")
        elif count < most:
            found.append(f"{name}: {count} uses, {most} allowed; run `python -m tools.wording --lower`")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", metavar="NAME", help="show the places of one count, by the beginning of its name")
    parser.add_argument("--lower", action="store_true", help="lower the allowance to what is there")
    asked = parser.parse_args()
    found = uses()
    if asked.list:
        for use in found:
            if use.name.startswith(asked.list):
                print(f"{use.place}: {use.text}")
        return
    counts = Counter(use.name for use in found)
    allowed: dict[str, int] = json.loads(ALLOWED.read_text()) if ALLOWED.exists() else dict(counts)
    if asked.lower:
        lowered = {name: min(counts[name], most) for name, most in sorted(allowed.items())}
        ALLOWED.write_text(json.dumps({name: most for name, most in lowered.items() if most}, indent=2) + "\n")
        allowed = lowered
    complaints = compared(counts, allowed)
    print("\n".join(complaints) or f"{sum(counts.values())} uses of denied phrases and undocumented names, as allowed")
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main()
