"""Generate `tutti.contracts.<domain>.v1` from `protos/tutti/<domain>/v1`.

Promises: names on the wire stay `tutti.<domain>.v1`; only the Python packages move, so that they do not fall into the
services' own packages. Each becomes a package of messages (imports no grpc) and, where it serves, a module `stubs`.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "protos"
WELL_KNOWN = Path(protoc.__file__).parent / "_proto"


def moved(path: str) -> str:
    """Where a proto file of ours is pretended to lie while Python is generated from it."""
    return f"tutti/contracts/{path.removeprefix('tutti/')}" if path.startswith("tutti/") else path


def compile_protos(*arguments: str) -> None:
    plugins = [f"--plugin={path}" for path in sorted(Path(sys.executable).parent.glob("protoc-gen-*"))]
    if protoc.main(["protoc", *plugins, *arguments]):
        sys.exit("protoc refused the protos; its words are above")


def parse(folder: Path, sources: Iterable[str]) -> FileDescriptorSet:
    parsed = folder / "set.binpb"
    compile_protos(
        f"-I{PROTOS}", f"-I{WELL_KNOWN}", "--include_imports", "--include_source_info", f"-o{parsed}", *sources
    )
    return FileDescriptorSet.FromString(parsed.read_bytes())


def face(package: str, modules: dict[str, list[str]], about: str) -> str:
    """The text of a module that hands on names from generated modules."""
    names = sorted(name for of in modules.values() for name in of)
    lines = [f'"""{about} of {package}; generated, do not edit."""', ""]
    python = "tutti.contracts." + package.removeprefix("tutti.")
    lines += [f"from {python}.{module} import {', '.join(sorted(of))}" for module, of in sorted(modules.items())]
    return "\n".join([*lines, "", f"__all__ = {names!r}", ""])


def messages(file: FileDescriptorProto) -> list[str]:
    names = [each.name for each in file.message_type]
    names += [each.name for each in file.enum_type]
    names += [each.name for each in file.extension]
    return names + [value.name for kind in file.enum_type for value in kind.value]


def servants(file: FileDescriptorProto) -> list[str]:
    return [f"{service.name}Stub" for service in file.service]


def generate(out: Path) -> None:
    """Write the packages below `out` (a root such as `libs/`); what was generated there before is removed."""
    contracts = out / "tutti" / "contracts"
    for old in contracts.glob("*/v*"):
        shutil.rmtree(old)
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        every = parse(Path(folder), sources)
        for file in every.file:
            file.name = moved(file.name)
            file.dependency[:] = [moved(path) for path in file.dependency]
        given = Path(folder) / "moved.binpb"
        given.write_bytes(every.SerializeToString())
        ours = [file for file in every.file if file.name.startswith("tutti/")]
        read = f"--descriptor_set_in={given}"
        compile_protos(read, f"--python_out={out}", f"--mypy_out=quiet:{out}", *(file.name for file in ours))
        served = [file.name for file in ours if file.service]
        compile_protos(read, f"--grpc_python_out={out}", f"--mypy_grpc_out=quiet:{out}", *served)
    packages: dict[Path, list[FileDescriptorProto]] = {}
    for file in ours:
        packages.setdefault(out / Path(file.name).parent, []).append(file)
    for package, files in packages.items():
        shown = {f"{Path(file.name).stem}_pb2": messages(file) for file in files if messages(file)}
        (package / "__init__.py").write_text(face(files[0].package, shown, "Messages"))
        stubs = {f"{Path(file.name).stem}_pb2_grpc": servants(file) for file in files if file.service}
        if stubs:
            (package / "stubs.py").write_text(face(files[0].package, stubs, "Client stubs"))
        (package.parent / "__init__.py").touch()
    (contracts / "__init__.py").write_text('"""What is generated from protos/: messages and stubs."""\n')


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in (".py", ".pyi")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate Python from protos/.")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail if the committed code is not what would be generated"
    )
    arguments = parser.parse_args()
    if not arguments.check:
        generate(ROOT / "libs")
        return
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh, committed = tree(Path(folder) / "tutti/contracts"), tree(ROOT / "libs/tutti/contracts")
    differing = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
    if differing:
        sys.exit(f"generated code is stale: {', '.join(differing)}; run `make protos` and commit the result")


if __name__ == "__main__":
    main()
