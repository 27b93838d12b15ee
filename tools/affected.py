"""Run the tests that a change affects, the nearest first, as far as a time limit allows.

Promises: a test is affected when its module, one of its conftests, or a module that it imports, directly or not, has
changed since a commit. A file that is not Python counts as a change of the modules that name it and of the service or
package that holds it. What was left out for lack of time is counted and named: `make test` runs everything.

Imports are read, not recorded: a record of coverage needs a full run first, and knows nothing of the processes that
tests start. Names of modules in strings count as imports, for the same reason.
"""

import argparse
import ast
import itertools
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from tests.durations import expected_of_module, known

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("libs", "services", "tests", "tools", "benchmarks", "deploy", "examples")
PREFIXES = ("libs/", "services/", "deploy/local/", "deploy/docker/")
"""Folders below which a path is the name of a module; elsewhere it is one from the root."""
PROGRAMS = {"tests/e2e/command.py": ("tutti.cli.app", "tutti.platform.main")}
"""Modules that a file starts as programs without naming them."""
WORKERS = 2

Graph = Mapping[str, Collection[str]]
"""Path: the paths that depend on it."""


def module_of(path: str) -> str:
    """The dotted name of a Python file, from its path below the root."""
    name = next((path.removeprefix(each) for each in PREFIXES if path.startswith(each)), path)
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def names_in(text: str) -> set[str]:
    """The modules that a Python file imports or names in a string; also every imported attribute, which may be one."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            names.add(node.value.partition(":")[0])
    return names


def graph(texts: Mapping[str, str], services: Collection[str] = ()) -> Graph:
    """Who depends on whom, from the texts of all Python files by path; `services` are the modules of entry points."""
    paths = {module_of(path): path for path in texts}
    dependents: dict[str, set[str]] = defaultdict(set)
    for path, text in texts.items():
        names = names_in(text) | set(PROGRAMS.get(path, ()))
        if module_of(path) == "tutti.platform.main":
            names |= set(services)
        for name in names & paths.keys():
            dependents[paths[name]].add(path)
        if path.endswith("_test.py"):
            for folder in Path(path).parents:
                dependents[(folder / "conftest.py").as_posix()].add(path)
    return dependents


def starting(changed: Iterable[str], texts: Mapping[str, str]) -> dict[str, int]:
    """The Python files that changed, at distance 0, and at distance 1 those that other changed files affect."""
    found: dict[str, int] = {}
    for path in changed:
        if path.endswith(".py"):
            found[path] = 0
            continue
        holders = (f"{folder}/{name}" for folder in Path(path).parents for name in ("service.py", "__init__.py"))
        holder = itertools.islice((each for each in holders if each in texts), 1)
        for each in (*holder, *(each for each, text in texts.items() if Path(path).name in text)):
            found.setdefault(each, 1)
    return found


def distances(changed: Mapping[str, int], dependents: Graph) -> dict[str, int]:
    """How many imports each affected test module is away from the nearest change."""
    far = dict(changed)
    edge = sorted(far, key=lambda path: far[path])
    for path in edge:  # it grows
        for each in dependents.get(path, ()):
            if each not in far:
                far[each] = far[path] + 1
                edge.append(each)
    return {path: steps for path, steps in far.items() if path.endswith("_test.py")}


def chosen(far: Mapping[str, int], seconds: Mapping[str, float], limit: float) -> list[str]:
    """The nearest tests whose expected time fits the limit, the cheap ones of a distance first; changed ones always."""
    found, spent = [], 0.0
    for path in sorted(far, key=lambda path: (far[path], seconds[path], path)):
        if far[path] == 0 or spent + seconds[path] <= limit:
            found.append(path)
            spent += seconds[path]
    return found


def changes(since: str) -> list[str]:
    """Paths that differ from a commit, with those that git does not know yet."""
    found: list[str] = []
    for command in (("diff", "--name-only", since), ("ls-files", "--others", "--exclude-standard")):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True)
        found += done.stdout.splitlines()
    return found


def sources() -> dict[str, str]:
    """The texts of all Python files by path below the root."""
    files = [ROOT / "conftest.py", *(path for name in SOURCES for path in (ROOT / name).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}


def entry_points() -> list[str]:
    """The modules of the services."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [each.partition(":")[0] for each in project["entry-points"]["tutti.services"].values()]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.affected", description=__doc__)
    parser.add_argument("--since", default="HEAD", help="the commit that the tree is compared with; HEAD")
    parser.add_argument("--seconds", type=float, default=90.0, help="the time limit of the tests; 90")
    parser.add_argument("--list", action="store_true", help="print the tests instead of running them")
    options = parser.parse_args(arguments)
    texts, changed = sources(), changes(options.since)
    far = distances(starting(changed, texts), graph(texts, entry_points()))
    record = known()
    seconds = {path: expected_of_module(path, record) for path in far if (ROOT / path).exists()}
    tests = chosen({path: far[path] for path in seconds}, seconds, options.seconds * WORKERS)
    left = sorted(seconds.keys() - set(tests), key=lambda path: (far[path], path))
    print(
        f"{len(changed)} files changed since {options.since}; {len(tests)} of {len(seconds)} affected test modules run"
    )
    if left:
        more = f" and {len(left) - 10} more" if len(left) > 10 else ""
        print(f"left out, {options.seconds:.0f} s are not enough: {', '.join(left[:10])}{more}")
    if options.list or not tests:
        print("\n".join(tests))
        return 0
    return subprocess.call(
        [sys.executable, "-m", "pytest", "-q", "-n", str(WORKERS), "--dist", "loadscope", *tests], cwd=ROOT
    )


if __name__ == "__main__":
    sys.exit(main())
