"""The layout of replicated servers: three brokers, and a Postgres primary with a standby.

Promises: ports and passwords are chosen once per folder and stay, because brokers, standby and clients know them; a
folder without a layout has one server of each kind.
"""

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from processes import ServerError, free_port, write_secret

FILE = "layout.json"
BROKERS = ("kafka", "kafka-2", "kafka-3")
DATABASES = ("postgres", "postgres-2")
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Layout:
    """Ports by the number of the server, from 0; `standby_password` is that of the role which replicates."""

    brokers: list[int]
    controllers: list[int]
    databases: list[int]
    broker_password: str
    database_password: str
    standby_password: str
    listen: str = LOOPBACK
    """where the databases accept connections; clients of other hosts need passwords too"""

    @classmethod
    def read(cls, folder: Path) -> "Layout | None":
        """Return the layout of a folder, None for single servers."""
        try:
            return cls(**json.loads((folder / FILE).read_text()))
        except FileNotFoundError:
            return None

    def write(self, folder: Path) -> None:
        """Give the servers of a folder this layout."""
        folder.mkdir(parents=True, exist_ok=True)
        write_secret(folder / FILE, json.dumps(asdict(self)))


def replicate(folder: Path) -> None:
    """Give a folder without servers the replicated layout, unless it has it. Raises ServerError."""
    if Layout.read(folder) is not None:
        return
    if single := [name for name in ("kafka", "postgres") if (folder / name).exists()]:
        raise ServerError(
            f"{folder} has a single {single[0]} already, expected a folder without servers: take another "
            f"directory, and move the data with `stack.py backup` and `restore`"
        )
    ports: list[int] = []
    while len(ports) < 2 * len(BROKERS) + len(DATABASES):
        if (port := free_port()) not in ports:
            ports.append(port)
    split = len(BROKERS)
    made = Layout(
        ports[:split], ports[split : 2 * split], ports[2 * split :], *(secrets.token_hex(24) for _ in range(3))
    )
    made.write(folder)
