"""Writes through the front door, one after another, while faults are injected; the longest time without an answer.

Promises: after the faults, every acknowledged write is read back.
"""

import hashlib
import threading
import time
from contextlib import suppress
from itertools import pairwise

from tests.trials.docker.engine import TrialError
from tests.trials.docker.project import Project
from tutti.chassis.config.sections import TlsSettings
from tutti.chassis.rpc.tls import Tls
from tutti.client import Client, Problem, connect
from tutti.contracts.access.v1 import InviteNodeRequest, ListTokensRequest
from tutti.web.tokens import ID_DIGITS

NODE = "nodes/trial"
VALID_MINUTES = 24 * 60
"""An invitation that expires is deleted; a trial is shorter."""
PAUSE_SECONDS = 0.2
DEADLINE_SECONDS = 2.0
READ_SECONDS = 30.0
"""Deadlines of calls. A write without an answer is sent again; if the first had arrived, that changes nothing."""


class Writes:
    """A thread that invites nodes: each is one transaction in Postgres, and not in the canonical state."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._client = self._connected(DEADLINE_SECONDS)
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

    def read_back(self) -> None:
        """Raise TrialError, which names the acknowledged writes that are missing."""
        acknowledged = range(len(self))
        try:
            with self._connected(READ_SECONDS) as client:
                found = client.access.ListTokens(ListTokensRequest(user=NODE)).tokens
        except Problem as problem:
            raise TrialError(f"the {len(acknowledged)} acknowledged writes cannot be read: {problem}") from problem
        kept = {token.id for token in found}
        missing = [number for number in acknowledged if _digest(number)[:ID_DIGITS] not in kept]
        if missing:
            raise TrialError(f"of {len(acknowledged)} acknowledged writes {len(missing)} are missing: {missing[:20]}")

    def _connected(self, seconds: float) -> Client:
        project = self._project
        tls = Tls(TlsSettings(ca=str(project.authority))) if project.authority else None
        return connect(address=project.address, token=project.token, deadline_seconds=seconds, tls=tls)

    def _run(self) -> None:
        number = 0
        while not self._over.wait(PAUSE_SECONDS):
            request = InviteNodeRequest(token_digest=_digest(number), node=NODE, valid_minutes=VALID_MINUTES)
            with suppress(Problem):  # nobody answered, so the outcome is unknown
                self._client.access.InviteNode(request)
                self._acknowledged.append(time.monotonic())
                number += 1


def _digest(number: int) -> str:
    return hashlib.sha256(f"writes {number}".encode()).hexdigest()
