"""What one worker makes for all of them.

Promises: of several workers that need the same at once, one makes it and the others wait.
"""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder of the session; each worker has its own below it."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(folder: Path, make: Callable[[], Any]) -> Any:
    """Return, as JSON has it, what `make` returned to the first who asked for it in this folder of all workers."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = folder / "made.json"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.write_text(json.dumps(make()))
    return json.loads(made.read_text())
