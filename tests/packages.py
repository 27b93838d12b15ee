"""Programs of this machine that tests need, installed where that can be done without asking: as root on Debian."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

LOCK = Path(tempfile.gettempdir()) / "tutti-tests-packages.lock"
SECONDS = 600


def program(*names: str, package: str) -> str | None:
    """The path of the first of these programs that is here, or that the package brings; None where there is none.

    One process installs at a time, because apt-get fails at once while another one runs.
    """
    if (path := _found(names)) is not None or os.getuid() != 0 or shutil.which("apt-get") is None:
        return path
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _found(names) is None:
            waits = ["-o", f"DPkg::Lock::Timeout={SECONDS}"]
            for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *waits, package]):
                subprocess.run(["apt-get", *command], capture_output=True, timeout=SECONDS, check=False)
    return _found(names)


def _found(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)
