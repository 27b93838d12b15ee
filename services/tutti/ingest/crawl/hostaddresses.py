"""Local addresses of hosts, used instead of their DNS names; they may change each time that a crawl resumes.

Promises: a crawl that resumes waits for a host whose local address is not up yet or has changed, instead of treating it
as broken, and reports which host it waits for. No reason contains an address.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from google.protobuf import json_format

from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import Retry, WorkFailed
from tutti.contracts.ingest.v1 import CrawlSpec, Place
from tutti.ingest.crawl.addresses import address_of
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.paths import Paths

AWAY_SECONDS = 60.0
"""For who never answered."""
LOST_SECONDS = 600.0
"""For who did: its site is started again, or the recipe is carried out with its new place."""
LOOK_SECONDS, CONNECT_SECONDS = 1.0, 2.0
Run = Callable[..., list[str]]


def encoded(spec: CrawlSpec) -> str:
    """The places of a spec, as they are kept."""
    return json.dumps([json_format.MessageToDict(place) for place in spec.connect])


def decoded(kept: str) -> list[Place]:
    return [json_format.ParseDict(place, Place()) for place in json.loads(kept or "[]")]


def away(connect: Mapping[str, str]) -> list[str]:
    """Those hosts at whose places nobody listens."""
    found = []
    for host, there in connect.items():
        try:
            socket.create_connection(address_of(there), CONNECT_SECONDS).close()
        except OSError:
            found.append(host)
    return found


def names_of(host: str) -> set[str]:
    """By which a place may name the host of a URL, such as http://a.example."""
    split = urlsplit(host)
    port = split.port or {"http": 80, "https": 443}[split.scheme]
    return {str(split.hostname), f"{split.hostname}:{port}"}


class HostAddresses:
    """Those of the crawls that this process carries out."""

    def __init__(self, host: Host, frontier: Frontier, paths: Paths) -> None:
        self._host, self._frontier, self._paths = host, frontier, paths
        self._away_since: dict[str, float] = {}

    def kept(self, crawl: str) -> str:
        return self._host.units.run(lambda unit: self._paths.find(unit, crawl))

    def check(self, crawl: str, kept: str) -> None:
        """Raises Retry where the places are others than those that were kept when the work began."""
        if self.kept(crawl) != kept:
            raise Retry("its hosts lie elsewhere now", after=0.0)

    def await_all(self, crawl: str, kept: str, run: Run, say: Callable[[str], None]) -> None:
        """Before a crawl goes on. Raises Retry while nobody listens where a host was said to lie, for some time.

        After that: WorkFailed for one that answered before; any other is one that is not there.
        """
        connect = {place.host: place.address for place in decoded(kept)}
        missing = run(away, connect) if connect else []
        if not missing:
            self._away_since.pop(crawl, None)
            say("")
            return
        words = f"nobody listens where input.crawl.connect says that {', '.join(missing)} lies"

        def answered(unit: Unit) -> set[str]:
            return {name for host in self._frontier.answered(unit, crawl) for name in names_of(host)}

        lost = sorted(self._host.units.run(answered).intersection(missing))
        now = self._host.clock.monotonic()
        if now - self._away_since.setdefault(crawl, now) < (LOST_SECONDS if lost else AWAY_SECONDS):
            say(f"waits: {words}")
            raise Retry(words, after=LOOK_SECONDS)
        del self._away_since[crawl]
        if lost:
            raise WorkFailed(
                f"{', '.join(lost)} answered before, and now nobody listens where input.crawl.connect says that it "
                f"lies; start it, and run the recipe again"
            )
        say("")
