"""Facts and rules about the code: packages, imports, starts of processes, lengths of files, first words of docstrings.

Promises: import-linter's contracts are derived from the folders and the entry points, so that a new service is held to
the rules without anybody editing a list. `house.py imports` writes them to build/ and runs import-linter on them.
"""

import argparse
import ast
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEDIAN_LINES, MOST_LINES = 250, 450
ALLOWED_LINES: dict[str, int] = {}
"""Modules that are longer than MOST_LINES, with their lines. Entries may only become smaller, and disappear."""
QUESTION = re.compile(r"(What|Who|Whose|Whether|How|Why|Which|Where|That|Of)\b")
"""First words of a docstring that does not name the thing, what it returns or what it does."""
LAYERS = [
    "cli",
    "report",
    "client : web",
    "simulation",
    "platform",
    "upkeep : staging",
    "chassis",
    "corpus : model : checkpoints : inference : judgements",
    "native",
    "records",
    "backbone",
    "contracts",
]
# Sub-packages (and modules beside them), each importing only those below it.
INSIDE = {
    "chassis": ["runtime", "work", "delivery : rpc", "service", "store", "events", "config", "identity"],
    "corpus": [
        *["quality", "counts : documents : spans", "tokens : conversations", "files"],
        "arrays : rows : texts : threads",
    ],
    "annotation": ["service", "rpc : pages", "campaigns", "publishing", "judging", "settings : tables"],
    "pipeline": ["service", "rpc : pages", "runs", "plans", "stages", "recipes : settings"],
    "chat": [
        *["service", "pages : rpc : replica", "turns : learning : overlap"],
        *["serving : completions : live : tokenizing", "answers : beginnings", "alternatives"],
        *["replaying : tables : sharing", "leases"],
        *[
            "making : conversations : generations : capacity",
            "recording",
            "journal : releases",
            "records : keys : reports",
        ],
        *["answering : models : bodies", "saying"],
        *["requests : visible : filters : fitting : openapi", "fields", "kinds", "filter"],
        *[
            "routing : fleets : defaults",
            "children : links : standing",
            "progress",
            "tokens",
            "names : reasons : asking",
        ],
    ],
    "trainer": [
        *["simulated : agent", "rank", "programs", "policies", "batches", "io", "lifeline"],
        "autopsy : failures : framing : metrics",
    ],
    "ingest": ["crawl", "reading", "quality", "encoding"],
}
STARTS = re.compile(
    r"subprocess\.(Popen|run|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|os\.(system|popen|exec\w+|spawn\w+|posix_spawnp?)|pty\.spawn|runpy\.\w+|webbrowser\.\w+"
    r"|asyncio\.create_subprocess_\w+|concurrent\.futures\.ProcessPoolExecutor"
    r"|multiprocessing\.(?!connection\b)[\w.]+"
)
"""Calls that start another process."""
PLATFORM = ["chassis", "upkeep", "platform", "simulation"]
"""The libraries that run services; only they use the event log."""
COMMANDS = ["cli"]
"""The libraries of the command line; a service uses them in its sub-package `commands` alone."""
KNOWLEDGE = ["corpus", "model", "checkpoints", "inference", "judgements"]
"""The libraries about texts and models, of which the chassis knows nothing."""
STARTERS = {
    "libs/tutti/platform/interpreter.py": "processes of Python",
    "libs/tutti/corpus/conversations/chattemplate.py": "the sandbox of a chat template",
    "libs/tutti/native/native.py": "the C compiler",
    "libs/tutti/native/wheelkernels.py": "the C compiler, while a wheel is built",
    "libs/tutti/cli/loginfiles.py": "a browser",
}
"""The modules that may start a process, and which. Tools, benchmarks, tests and `deploy` are not checked."""
INTERPRETER = "sys.executable"


def services() -> list[str]:
    """The packages below services/tutti."""
    return sorted(path.parent.name for path in ROOT.glob("services/tutti/*/__init__.py"))


def libraries() -> list[str]:
    """The packages below libs/tutti."""
    return sorted(path.parent.name for path in ROOT.glob("libs/tutti/*/__init__.py"))


def tests(package: str) -> list[str]:
    """The test modules of a package: they may import from any layer."""
    paths = (path for root in ("libs", "services") for path in (ROOT / root).glob(f"tutti/{package}/**/*_test.py"))
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts[1:]) for path in paths)


def entry_points() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return sorted(project["entry-points"]["tutti.services"])


def contracts() -> str:
    """The import-linter configuration, as INI text."""
    present = set(libraries())
    layers = [" : ".join(f"tutti.{name}" for name in layer.split(" : ") if name in present) for layer in LAYERS]
    every = [f"tutti.{name}" for name in services()]
    beside = [f"tutti.{name}" for name in libraries() if name not in PLATFORM]
    lines = ["[importlinter]", "root_packages = "]
    lines += [f"    tutti.{name}" for name in libraries() + services()]
    lines += ["include_external_packages = True", "exclude_type_checking_imports = True", ""]
    lines += [
        "[importlinter:contract:layers]",
        "name = libraries stand on those below them",
        "type = layers",
        "layers =",
    ]
    lines += [f"    {layer}" for layer in layers if layer]
    lines += ["ignore_imports =", *(f"    {name} -> tutti.**" for package in libraries() for name in tests(package))]
    lines += ["unmatched_ignore_imports_alerting = none"]
    for package, inside in INSIDE.items():
        lines += ["", f"[importlinter:contract:{package}]", f"name = the sub-packages of {package} are layers"]
        lines += ["type = layers", f"containers = tutti.{package}", "layers =", *(f"    {layer}" for layer in inside)]
        lines += ["ignore_imports =", *(f"    {name} -> tutti.**" for name in tests(package))]
        lines += ["unmatched_ignore_imports_alerting = none"]
    lines += ["", "[importlinter:contract:services]", "name = no service imports another", "type = independence"]
    lines += ["modules =", *(f"    {name}" for name in every)]
    lines += ["", "[importlinter:contract:libraries]", "name = no library imports a service", "type = forbidden"]
    lines += ["source_modules =", *(f"    tutti.{name}" for name in libraries())]
    lines += ["forbidden_modules =", *(f"    {name}" for name in every)]
    lines += ["", "[importlinter:contract:log]", "name = only the platform uses the event log", "type = forbidden"]
    lines += ["source_modules =", *(f"    {name}" for name in [*every, *(b for b in beside if b != "tutti.backbone")])]
    lines += ["forbidden_modules =", "    tutti.backbone.eventlog", "allow_indirect_imports = True"]
    lines += ["", "[importlinter:contract:commands]", "name = a service uses the command line in its commands alone"]
    lines += ["type = forbidden", "source_modules =", *(f"    {name}" for name in every)]
    lines += ["forbidden_modules =", *(f"    tutti.{name}" for name in COMMANDS), "allow_indirect_imports = True"]
    lines += [
        "ignore_imports =",
        *(f"    {name}.commands{below} -> tutti.**" for name in every for below in ("", ".**")),
    ]
    lines += [f"    {name} -> tutti.**" for package in services() for name in tests(package)]
    lines += ["unmatched_ignore_imports_alerting = none"]
    lines += ["", "[importlinter:contract:report]", "name = reports print nothing", "type = forbidden"]
    lines += ["source_modules =", "    tutti.report", "forbidden_modules =", "    click", "    rich"]
    lines += ["allow_indirect_imports = True"]
    lines += ["", "[importlinter:contract:chassis-knows]", "name = the chassis knows nothing of texts and models"]
    lines += ["type = forbidden", "source_modules =", "    tutti.chassis", "forbidden_modules ="]
    lines += [f"    tutti.{name}" for name in KNOWLEDGE]
    lines += ["ignore_imports =", *(f"    {name} -> tutti.**" for name in tests("chassis"))]
    lines += ["unmatched_ignore_imports_alerting = none"]
    lines += ["", "[importlinter:contract:ranks]", "name = the arithmetic knows no wire and no store"]
    lines += ["type = forbidden", "source_modules =", "    tutti.model", "forbidden_modules ="]
    lines += ["    grpc", "    kafka", "    sqlalchemy", "    minio", "    psycopg"]
    return "\n".join(lines) + "\n"


def sources() -> list[Path]:
    """Handwritten Python of the product, tests left out."""
    return [
        path
        for root in ("libs", "services")
        for path in sorted((ROOT / root).rglob("*.py"))
        if "contracts" not in path.parts and not path.name.endswith("_test.py") and path.stat().st_size
    ]


def lengths() -> dict[str, int]:
    """Return the lines of each source."""
    return {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in sources()}


def too_long(found: Mapping[str, int], allowed: Mapping[str, int] = ALLOWED_LINES) -> Iterator[str]:
    """Yield a message for each module that is too long, and for each allowance that is larger than its module."""
    for path, lines in found.items():
        if lines > allowed.get(path, MOST_LINES):
            yield f"{path}: {lines} lines, expected at most {allowed.get(path, MOST_LINES)}: split it by meaning"
    for path, lines in allowed.items():
        if (now := found.get(path, 0)) < lines:
            less = f"lower it to {now}" if now > MOST_LINES else "remove it"
            yield f"tools/house.py: ALLOWED_LINES has {lines} for {path}, which has {now}: {less}"


def questions(source: str) -> Iterator[tuple[int, str]]:
    """The line and the first line of each docstring in a source that begins with one of the words of QUESTION."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", ())
        for child in body if isinstance(body, list) else ():
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                text = child.value.value
                if isinstance(text, str) and QUESTION.match(text):
                    yield child.lineno, text.partition("\n")[0]


def starts(source: str) -> Iterator[tuple[int, str]]:
    """The line and the name of each call in a source that starts a process, and of each use of `sys.executable`."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name.split(".")[0]: each.name if each.asname else "" for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    for node in ast.walk(tree):
        expression = node.func if isinstance(node, ast.Call) else node
        if isinstance(expression, ast.Attribute | ast.Name):
            first, dot, rest = ast.unparse(expression).partition(".")
            full = f"{names.get(first) or first}{dot}{rest}"
            started = isinstance(node, ast.Call) and first in names and STARTS.fullmatch(full)
            if started or (full == INTERPRETER and not isinstance(node, ast.Call)):
                yield expression.lineno, full


def check_children() -> int:
    """1 if a source starts a process without the module that isolates it, else 0; prints where."""
    found = [
        (path.relative_to(ROOT).as_posix(), line, name)
        for path in sources()
        for line, name in sorted(starts(path.read_text()))
    ]
    forbidden = [each for each in found if each[0] not in STARTERS]
    for path, line, name in forbidden:
        print(f"{path}:{line}: {name}: use tutti.platform.interpreter, or name the module in STARTERS")
    unused = STARTERS.keys() - {path for path, _, _ in found}
    for path in sorted(unused):
        print(f"tools/house.py: STARTERS names {path}, which starts no process: remove it")
    return bool(forbidden or unused)


def check_docstrings() -> int:
    """1 if a docstring of the sources begins with a question word, else 0; prints where."""
    found = [(path, line, text) for path in sources() for line, text in sorted(questions(path.read_text()))]
    for path, line, text in found:
        print(f"{path.relative_to(ROOT)}:{line}: {text!r}: say what it is, returns or does, such as 'The number of …'")
    return bool(found)


def check_imports() -> int:
    """The exit code of import-linter."""
    target = ROOT / "build" / "importlinter.ini"
    target.parent.mkdir(exist_ok=True)
    target.write_text(contracts())
    linter = Path(sys.executable).parent / "lint-imports"
    return subprocess.run([linter, "--config", str(target), "--no-cache"], cwd=ROOT, check=False).returncode


def check_sizes() -> int:
    """1 if a module is too long, or half of them are, else 0; prints which."""
    found = lengths()
    problems = list(too_long(found))
    median = statistics.median(found.values())
    print(f"{len(found)} files, {sum(found.values())} lines; median {median:.0f} (at most {MEDIAN_LINES})", end=", ")
    print(f"longest {max(found.values())} (at most {MOST_LINES})")
    print("".join(f"{each}\n" for each in problems), end="")
    return bool(problems) or median > MEDIAN_LINES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "what",
        choices=["imports", "children", "docstrings", "sizes"],
        help="imports: check the import rules; children: check which modules start processes; docstrings: check their "
        "first words; sizes: check the lengths of files",
    )
    checks = {
        "imports": check_imports,
        "children": check_children,
        "docstrings": check_docstrings,
        "sizes": check_sizes,
    }
    sys.exit(checks[parser.parse_args().what]())


if __name__ == "__main__":
    main()
