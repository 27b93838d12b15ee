"""The record that a supervisor keeps of itself and its children in the data directory, as a command reads it."""

import json
from pathlib import Path
from typing import Any

from tutti.chassis.config.datadir import PROCESSES
from tutti.platform.processes import AGENT, ProcessId, Recorded


def owner_of(data_dir: Path) -> ProcessId | None:
    """Return the supervisor that keeps the record of the directory; None where there is none."""
    try:
        return ProcessId(**_record(data_dir)["supervisor"])
    except (KeyError, TypeError):
        return None


def process_of(data_dir: Path, name: str) -> Recorded | None:
    """Return what the supervisor recorded about one of its children; None where it has not."""
    try:
        return next((Recorded(**each) for each in _record(data_dir)["children"] if each["name"] == name), None)
    except (KeyError, TypeError):
        return None


def agents_of(data_dir: Path) -> list[str]:
    """Return the names of the nodes whose agents the supervisor keeps running, such as `a`."""
    try:
        names = [str(each["name"]) for each in _record(data_dir)["children"]]
    except (KeyError, TypeError):
        return []
    return [name.removeprefix(AGENT) for name in names if name.startswith(AGENT)]


def stopping(data_dir: Path) -> bool:
    """Return whether the supervisor was told to stop."""
    return bool(_record(data_dir).get("stopping"))


def restarts(data_dir: Path) -> bool:
    """Return whether a supervisor runs there that starts its host again when it has ended."""
    owner = owner_of(data_dir)
    return owner is not None and owner.alive() and not stopping(data_dir)


def _record(data_dir: Path) -> dict[str, Any]:
    """Return the record; empty when it cannot be read."""
    try:
        return dict(json.loads((data_dir / PROCESSES).read_text()))
    except (OSError, ValueError, TypeError):
        return {}
