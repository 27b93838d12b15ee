"""Run the C kernels under AddressSanitizer and UndefinedBehaviorSanitizer with hostile inputs.

    python -m tools.sanitize [--inputs N] [--seed S] [--only KERNEL ...]

Promises: each kernel is compiled anew with both sanitizers and called through the functions that the product calls; an
input follows from its kernel, the seed and its number alone; the first error ends the run with status 1, names these
three, and leaves the report of the sanitizer on stderr. Memory of bytes, numpy and Arrow comes from malloc, so that a
read or a write one byte outside of it is seen.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.sanitized import KERNELS

ROOT = Path(__file__).resolve().parents[1]
SCRATCH = ROOT / "build" / "sanitize"
FLAGS = "-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
INPUTS = 110_000
MOST_SECONDS = 3600.0


class CannotSanitize(Exception):
    """The compiler or its sanitizers are missing; the message says what to install."""


def environment(scratch: Path) -> dict[str, str]:
    """Return the environment in which a Python process compiles and runs kernels with the sanitizers.

    Raises CannotSanitize.
    """
    compiler = shutil.which(os.environ.get("CC", "")) or shutil.which("gcc")
    if compiler is None:
        raise CannotSanitize("no C compiler; expected gcc on the PATH, or CC")
    scratch.mkdir(parents=True, exist_ok=True)
    libraries = [_library(compiler, name) for name in ("libasan.so", "libubsan.so")]
    wrapper = scratch / "cc"
    wrapper.write_text(f'#!/bin/sh\nexec {compiler} "$@" {FLAGS}\n')
    wrapper.chmod(0o755)
    return {
        **os.environ,
        "CC": str(wrapper),
        "XDG_CACHE_HOME": str(scratch / "kernels"),
        "LD_PRELOAD": ":".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "PYTHONPATH": str(ROOT),
    }


def _library(compiler: str, name: str) -> str:
    asked = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    found = asked.stdout.strip()
    if not os.path.isabs(found):  # the compiler answers with the bare name of a file that it lacks
        raise CannotSanitize(f"{compiler} has no {name}; install its sanitizers, such as libasan8 and libubsan1")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the C kernels under sanitizers with hostile inputs.")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of all kernels together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=sorted(KERNELS), metavar="KERNEL", help=", ".join(sorted(KERNELS)))
    given = parser.parse_args()
    try:
        surroundings = environment(SCRATCH)
    except CannotSanitize as error:
        sys.exit(str(error))
    chosen = given.only or sorted(KERNELS)
    each = -(-given.inputs // len(chosen))
    for name in chosen:
        at = SCRATCH / f"{name}.call"
        command = [sys.executable, "-m", "tools.sanitized", name, str(given.seed), str(each), str(at)]
        try:
            done = subprocess.run(command, cwd=ROOT, env=surroundings, timeout=MOST_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            sys.exit(f"{name}, seed {given.seed}, call {at.read_text()}: no end within {MOST_SECONDS:.0f} s")
        if done.returncode:
            sys.exit(f"{name}, seed {given.seed}, call {at.read_text()}: ended with {done.returncode}")


if __name__ == "__main__":
    main()
