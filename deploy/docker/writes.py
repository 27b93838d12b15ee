"""Writes through the front door, one after another, while faults are injected; the longest time without an answer."""

import hashlib
import threading
import time
from contextlib import suppress
from itertools import pairwise

from project import Project

from tutti.chassis.config.settings import TlsSettings
from tutti.chassis.rpc.tls import Tls
from tutti.client import Problem, connect
from tutti.contracts.access.v1 import InviteNodeRequest

PAUSE_SECONDS = 0.2
DEADLINE_SECONDS = 2.0
"""The deadline of a call. One without an answer is sent again; if the first had arrived, that changes nothing."""


class Writes:
    """A thread that invites nodes: each is one transaction in Postgres, and not in the canonical state."""

    def __init__(self, project: Project) -> None:
        tls = Tls(TlsSettings(ca=str(project.authority))) if project.authority else None
        self._client = connect(address=project.address, token=project.token, deadline_seconds=DEADLINE_SECONDS, tls=tls)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writes", daemon=True)
        self._acknowledged = [time.monotonic()]

    def __enter__(self) -> "Writes":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def __len__(self) -> int:
        """The number of acknowledged writes."""
        return len(self._acknowledged) - 1

    def longest_gap(self, since: float = 0.0) -> float:
        """The longest time without an acknowledged write after `since`, until now, in seconds."""
        times = [max(since, self._acknowledged[0]), *(at for at in self._acknowledged if at > since), time.monotonic()]
        return max(after - before for before, after in pairwise(times))

    def _run(self) -> None:
        number = 0
        while not self._over.wait(PAUSE_SECONDS):
            digest = hashlib.sha256(f"writes {number}".encode()).hexdigest()
            with suppress(Problem):  # nobody answered, so the outcome is unknown
                self._client.access.InviteNode(InviteNodeRequest(token_digest=digest, node="nodes/trial"))
                self._acknowledged.append(time.monotonic())
                number += 1
