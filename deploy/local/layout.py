"""The layout of three Kafka brokers.

Promises: ports and the password are chosen once per folder and stay, because brokers and clients know them; a folder
without a layout has one broker.
"""

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from processes import ServerError, free_port, write_secret

FILE = "layout.json"
BROKERS = ("kafka", "kafka-2", "kafka-3")


@dataclass(frozen=True)
class Layout:
    """Ports by the number of the broker, from 0."""

    brokers: list[int]
    controllers: list[int]
    broker_password: str

    @classmethod
    def read(cls, folder: Path) -> "Layout | None":
        """Return the layout of a folder, None for a single broker. Raises ServerError for one of an earlier version."""
        try:
            found = json.loads((folder / FILE).read_text())
        except FileNotFoundError:
            return None
        if "databases" in found:
            raise ServerError(
                f"{folder} has two databases with a promoter, which this version does not run: make a backup with the "
                f"version that made it, and restore it into another directory"
            )
        return cls(**found)

    def write(self, folder: Path) -> None:
        """Give the servers of a folder this layout."""
        folder.mkdir(parents=True, exist_ok=True)
        write_secret(folder / FILE, json.dumps(asdict(self)))


def replicate(folder: Path) -> None:
    """Give a folder without a broker the layout of three, unless it has it. Raises ServerError."""
    if Layout.read(folder) is not None:
        return
    if (folder / "kafka").exists():
        raise ServerError(
            f"{folder} has a single broker already, expected a folder without servers: take another "
            f"directory, and move the data with `stack.py backup` and `restore`"
        )
    ports: list[int] = []
    while len(ports) < 2 * len(BROKERS):
        if (port := free_port()) not in ports:
            ports.append(port)
    Layout(ports[: len(BROKERS)], ports[len(BROKERS) :], secrets.token_hex(24)).write(folder)
