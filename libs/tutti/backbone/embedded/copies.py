"""Copies of several SQLite databases at one moment, while their owners go on.

Promises: no transaction of one database that could have learned of another's is in a copy without that other one: all
owners stop between two transactions before the first copy begins. Each goes on as soon as its own copy is written.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tutti.backbone.database import Contention
from tutti.backbone.embedded.database import EmbeddedDatabase

MEET_SECONDS = 30.0


def copy_together(databases: Mapping[str, EmbeddedDatabase], folder: Path, *, seconds: float = MEET_SECONDS) -> None:
    """Write `folder`/NAME.db for each database by name. Raises DatabaseError; Contention names who did not stop."""
    if not databases:
        return
    barrier, arrived = threading.Barrier(len(databases)), set[str]()

    def copy(name: str) -> None:
        def meet() -> None:
            if not barrier.broken:
                arrived.add(name)
            barrier.wait(seconds)

        databases[name].copy(folder / f"{name}.db", meet)

    with ThreadPoolExecutor(len(databases)) as pool:
        copies = {name: pool.submit(copy, name) for name in sorted(databases)}
    broken = False
    for done in copies.values():
        error = done.exception()
        if isinstance(error, threading.BrokenBarrierError):
            broken = True
        elif error is not None:
            raise error
    if broken:
        late = ", ".join(sorted(set(databases) - arrived))
        raise Contention(f"no copy was made: {late} had a transaction open for more than {seconds:g} s; try again")
