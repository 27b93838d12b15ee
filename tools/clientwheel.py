"""Build the package of the Python client alone: `tutti.client`, the contracts, and what these two import.

Promises: the package has every module that `import tutti.client` loads, those of TLS, and no other code of the project;
building it fails once `tutti.client` needs a library that is no dependency of the package.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "build" / "client"
NAME = "tutti-client"
NEEDS = ("googleapis-common-protos", "grpcio", "grpcio-status", "protobuf")
TLS = ("cryptography", "pydantic")
IMPORTED = ("google", "grpc", "grpc_status", "typing_extensions", "cython_runtime")
"""Packages that come with the dependencies."""
LOADED = f"""
import importlib.abc, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in (*sys.stdlib_module_names, *{IMPORTED!r}, "tutti"):
            raise ModuleNotFoundError(f"the client imports {{name}}, which is no dependency of its package", name=name)
refuse = Refuse()
sys.meta_path.insert(0, refuse)
import tutti.client
sys.meta_path.remove(refuse)
import tutti.chassis.config.sections, tutti.chassis.config.settings, tutti.chassis.identity.certificates  # with `tls`
for name, module in sorted(sys.modules.items()):
    if name.startswith("tutti.") and module.__file__:
        print(module.__file__)
"""


def modules(root: Path = ROOT) -> list[Path]:
    """The modules of the package, below `libs`. Raises SystemExit where one needs a library that the package lacks."""
    found = subprocess.run([sys.executable, "-c", LOADED], cwd=root, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(found.stderr.strip().splitlines()[-1])
    libs = root / "libs"
    contracts = (libs / "tutti" / "contracts").rglob("*.py*")
    files = {*map(Path, found.stdout.splitlines()), *(each for each in contracts if each.suffix in {".py", ".pyi"})}
    return sorted(each.relative_to(libs) for each in files)


def project(pyproject: Path = ROOT / "pyproject.toml") -> str:
    """The `pyproject.toml` of the package, with the version and the limits of the whole project."""
    whole = tomllib.loads(pyproject.read_text())["project"]
    limits = {each.partition(">")[0]: each for each in whole["dependencies"]}
    return f"""[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{NAME}"
version = "{whole["version"]}"
description = "The client of Tutti, {whole["description"][0].lower()}{whole["description"][1:]}"
license = "{whole["license"]}"
requires-python = "{whole["requires-python"]}"
dependencies = {[limits[each] for each in NEEDS]}

[project.optional-dependencies]
tls = {[limits[each] for each in TLS]}

[tool.hatch.build.targets.wheel]
packages = ["tutti"]
"""


def build(target: Path = TARGET) -> Path:
    """Build the wheel below `target`, which is emptied. Return its path."""
    shutil.rmtree(target, ignore_errors=True)
    for each in modules():
        (target / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "libs" / each, target / each)
    (target / "pyproject.toml").write_text(project())
    # The build backend is beside the installer, see `make setup`.
    python = Path(sys.prefix) / "uv" / "bin" / "python"
    made = subprocess.run(
        [python, "-m", "hatchling", "build", "-t", "wheel", "-d", target / "dist"],
        cwd=target,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1577836800"},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise SystemExit(f"hatchling cannot build the package: {made.stderr.strip()}")
    return next((target / "dist").glob("*.whl"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the package of the Python client alone, and print its path.")
    parser.add_argument("--to", type=Path, default=TARGET, metavar="FOLDER", help="where; it is emptied (%(default)s)")
    given = parser.parse_args()
    print(build(given.to))


if __name__ == "__main__":
    main()
