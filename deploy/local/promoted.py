"""The promoter as a server of the stack: a process of ours that starts the pair of databases and decides who leads.

Promises: ready when the primary answers; the standby follows later, and `pair/record.json` says when it may replace it.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from layout import DATABASES, Layout
from pair import Record
from postgres import Postgres
from processes import Process, start


class Promoter:
    name = "promoter"
    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._folder = folder
        self._pair = {name: Postgres(layout, number) for number, name in enumerate(DATABASES)}

    def obtain(self, *, install: bool) -> None:
        """It is part of this folder."""

    def settings(self, old: dict[str, str]) -> dict[str, str]:
        return old

    def start(self, folder: Path, settings: dict[str, str]) -> Process:
        del settings
        program = Path(__file__).with_name("promoter.py")
        libraries = {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
        return start([sys.executable, program, "--dir", self._folder], log=folder / "log", environment=libraries)

    def is_ready(self, settings: dict[str, str]) -> bool:
        del settings
        primary = self._primary()
        return primary.is_ready(primary.settings({}))

    def recovers(self, settings: dict[str, str]) -> bool:
        del settings
        primary = self._primary()
        return primary.recovers(primary.settings({}))

    def url(self, settings: dict[str, str]) -> str:
        return ""

    def _primary(self) -> Postgres:
        return self._pair[Record.read(self._folder).primary]

    def wipe(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self._folder / "pair", ignore_errors=True)
