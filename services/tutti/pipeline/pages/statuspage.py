"""The page `/status`: what runs where, what is unhealthy, what to do.

Promises: it is shown while services are away, which are named with the reason; however many viewers there are, the
services are asked once in a few seconds at most, and for nodes, jobs and runs only after one of them changed.
"""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Host
from tutti.client import overview
from tutti.client.overview import Copy, Overview, Work
from tutti.pipeline.pages import statusviews
from tutti.web.pages import Page, Visit

T = TypeVar("T")
ROLES = frozenset({Role.OPERATOR, Role.ENGINEER})
FRESH_SECONDS = 2.0


@dataclass(frozen=True)
class _Seen:
    """The copies of services, and a text that changes with them and with every node, job and run."""

    copies: list[Copy]
    version: str


class StatusPage:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen = Shared(self._look, host.clock.monotonic, FRESH_SECONDS)
        self._work: dict[str, tuple[str, Work]] = {}  # by tenant, since runs are shown as each may see them
        self._away: dict[tuple[str, str], datetime] = {}

    def status(self, visit: Visit) -> Page:
        seen, tenant = self._seen.get(), visit.principal.tenant
        known = self._work.get(tenant)
        if known is None or known[0] != seen.version or known[1].missing:
            known = self._work[tenant] = seen.version, overview.work(self._host.channel)
        return Page("status.html", "Status", statusviews.status_view(Overview(seen.copies, known[1])))

    def version(self, visit: Visit) -> str:
        return self._seen.get().version

    def _look(self) -> _Seen:
        copies, changes = self._dated(overview.copies(self._host.channel)), overview.changes(self._host.channel)
        told = [f"{each.address} {each.version} {each.info.SerializeToString(deterministic=True)!r}" for each in copies]
        return _Seen(copies, hashlib.blake2s("\n".join([*told, changes]).encode(), digest_size=12).hexdigest())

    def _dated(self, copies: list[Copy]) -> list[Copy]:
        """Add to the copies that did not answer since when they have not, as far as this page has looked."""
        now, before = self._host.clock.now(), self._away
        self._away = {}
        for copy in copies:
            if not copy.info.HasField("since"):
                key = copy.info.name, copy.address
                self._away[key] = before.get(key, now)
                copy.info.since.FromDatetime(self._away[key])
        return copies


class Shared(Generic[T]):
    """A value for many threads, read again by one of them once it is older than `seconds`."""

    def __init__(self, read: Callable[[], T], monotonic: Callable[[], float], seconds: float) -> None:
        self._read, self._monotonic, self._seconds = read, monotonic, seconds
        self._lock = threading.Lock()
        self._known: tuple[float, T] | None = None

    def get(self) -> T:
        """The value; the former one while another thread reads it again."""
        if not self._lock.acquire(blocking=self._known is None):
            assert self._known is not None
            return self._known[1]
        try:
            if self._known is None or self._monotonic() - self._known[0] >= self._seconds:
                value = self._read()
                self._known = self._monotonic(), value
            return self._known[1]
        finally:
            self._lock.release()
