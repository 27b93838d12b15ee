"""The names of annotators for the owner of a campaign, from the service access.

Promises: access is asked for at most `SECONDS`, and again after `KEPT_SECONDS`; a name that it did not give is missing,
and nothing waits for it. Names are in memory alone.
"""

import threading
from collections.abc import Collection, Mapping

from tutti.chassis.errors import Problem
from tutti.chassis.rpc.deadline import Deadline
from tutti.chassis.service import Host
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.contracts.common.v1 import ListRequest

SECONDS, KEPT_SECONDS = 2.0, 5.0
PAGE = 500


class People:
    """The display names of users. Safe for any thread."""

    def __init__(self, host: Host) -> None:
        self._clock, self._stub = host.clock, AccessServiceStub(host.channel("access"))
        self._lock = threading.Lock()
        self._names, self._until = dict[str, str](), 0.0

    def names(self, users: Collection[str]) -> Mapping[str, str]:
        """The names of these users that are known, by user."""
        wanted = {each for each in users if each}
        with self._lock:
            fresh = self._clock.monotonic() < self._until and wanted <= self._names.keys()
            known = dict(self._names)
        if wanted and not fresh:
            known = self._asked()
            with self._lock:
                self._names = known | dict.fromkeys(wanted - known.keys(), "")  # one that is unknown is asked for later
                self._until = self._clock.monotonic() + KEPT_SECONDS
        return {each: known[each] for each in wanted if known.get(each)}

    def _asked(self) -> dict[str, str]:
        """The names of all users of the visitor's tenant that access gave in time."""
        found, token, deadline = dict[str, str](), "", Deadline(SECONDS, self._clock.monotonic)
        try:
            while True:
                asked = ListRequest(page_size=PAGE, page_token=token)
                page = self._stub.ListUsers(asked, timeout=deadline.left())
                found |= page.display_names
                token = page.next_page_token
                if not token:
                    return found
        except Problem:
            return found  # the keys of the others are shown
