"""Native kernels: one C file, compiled with the wheel or where it runs, and loaded into this process.

Promises: a kernel computes the same bits as its Python twin, so a machine without a compiler loses time and nothing
else; `kernel` says why there is none, for the doctor. A wheel has each kernel compiled, beside its source and named
by its digest. Otherwise a kernel is compiled into the user's cache folder (mode 0700), named by the digest of source,
compiler, flags and machine: it is never stale, and processes that compile at the same time do not collide. A kernel is
one file without headers of its own; calls into it release the GIL.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tutti.backbone.files import RealFiles, overwrite
from tutti.backbone.ours import NotOurs, claim
from tutti.native.wheelkernels import FLAGS, built_name
from tutti.records.canonical import keyed_bytes
from tutti.records.errors import CorpusError

COMPILERS = ("cc", "gcc", "clang")
COMPILE_SECONDS = 120


class NoKernel(CorpusError):
    """A kernel cannot be compiled or loaded here; the message says why, and what to do."""


@dataclass(frozen=True)
class Kernel:
    """`library` is None where there is no kernel; `why_not` says why then, and is empty otherwise.

    `installed`: the library came compiled with the installation.
    """

    name: str
    library: ctypes.CDLL | None
    why_not: str
    installed: bool = False


@functools.cache
def kernel(source: Path) -> Kernel:
    """The kernel of a C file: the one of the installation, else one compiled here. A process asks its machine once.

    Raises FileNotFoundError when there is no such source: then the installation is damaged.
    """
    code = source.read_bytes()
    with contextlib.suppress(OSError):  # none, or made for another machine
        return Kernel(source.stem, ctypes.CDLL(str(source.with_name(built_name(source.stem, code)))), "", True)
    try:
        return Kernel(source.stem, load(code, source.stem, cache_folder(os.environ), compiler(os.environ)), "")
    except NoKernel as error:
        return Kernel(source.stem, None, str(error))


def cache_folder(environment: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/tutti/native`, or the same below `~/.cache`. Raises NoKernel for a user without a home."""
    base = environment.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "tutti" / "native"
    except RuntimeError as error:
        raise NoKernel(f"{error} A kernel needs a folder to lie in; set XDG_CACHE_HOME") from error


def compiler(environment: Mapping[str, str]) -> str:
    """The path of the C compiler: `$CC` when it is set, else the first of COMPILERS. Raises NoKernel."""
    named = environment.get("CC", "")
    path = environment.get("PATH")
    if found := next(filter(None, (shutil.which(name, path=path) for name in ([named] if named else COMPILERS))), None):
        return found
    if named:
        raise NoKernel(f"CC names {named!r}, which is no program on the PATH; name a C compiler or unset it")
    raise NoKernel(f"no C compiler ({', '.join(COMPILERS)}) on the PATH; install one (for example gcc)")


def load(code: bytes, name: str, folder: Path, compiler: str) -> ctypes.CDLL:
    """Load the kernel of `code` from `folder`, compiling it when it is not there or damaged. Raises NoKernel."""
    try:
        own_folder(folder)
        parts = (code, compiler.encode(), _version(compiler), " ".join(FLAGS).encode(), platform.machine().encode())
        target = folder / f"{name}-{keyed_bytes('native kernel', *parts).hex()[:32]}.so"
        if target.exists():
            try:
                return ctypes.CDLL(str(target))
            except OSError:
                pass  # a damaged file is written anew
        _compile(code, target, compiler)
        return ctypes.CDLL(str(target))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoKernel(f"the kernel {name!r} cannot be kept in {folder}: {error}; set XDG_CACHE_HOME") from error


@functools.cache
def _version(compiler: str) -> bytes:
    """The version output of a compiler."""
    command = [compiler, "--version"]
    return subprocess.run(command, capture_output=True, timeout=COMPILE_SECONDS, check=False).stdout


def own_folder(folder: Path) -> None:
    """Make `folder` with mode 0700; refuse one that others could have put code into. Raises NoKernel."""
    try:
        claim(folder, close=True, links=True)
    except NotOurs as error:
        raise NoKernel(f"{error.strerror}; code is loaded from it") from None


def _compile(code: bytes, target: Path, compiler: str) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{target.stem}-", dir=target.parent) as scratch:
        made = Path(scratch) / "kernel.so"
        command = [compiler, *FLAGS, "-o", str(made), "-x", "c", "-", "-lm"]
        done = subprocess.run(command, input=code, capture_output=True, timeout=COMPILE_SECONDS, check=False)
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            raise NoKernel(
                f"{compiler} ended with {done.returncode} for the kernel {target.stem!r}: "
                f"{words[0] if words else 'it said nothing'}; name another compiler by CC"
            )
        overwrite(RealFiles(), Path(scratch) / "synced.so", target, [made.read_bytes()])
