"""Kernels that a wheel brings: each C file compiled once, when the wheel is built.

Promises: a library is named by the digest of its source, the flags and the machine, so an edited source never loads an
old library; imports the standard library alone, because the build of the wheel loads this file before anything is
installed.
"""

import hashlib
import platform
import subprocess
from pathlib import Path

FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing", "-pthread")
"""Nothing of the processor at hand: other machines may load the library. Sums are not contracted, so that a twin in
Python can round alike."""


def built_name(name: str, code: bytes) -> str:
    """The file name of the compiled kernel of `code`, beside its source."""
    digest = hashlib.sha256(b"\0".join([code, " ".join(FLAGS).encode(), platform.machine().encode()])).hexdigest()
    return f"_{name}-{digest[:16]}.so"


def build(source: Path, folder: Path, compiler: str) -> Path:
    """Compile a C file into `folder`; the library. Raises subprocess.CalledProcessError."""
    target = folder / built_name(source.stem, source.read_bytes())
    subprocess.run([compiler, *FLAGS, "-o", str(target), str(source), "-lm"], check=True)
    return target
