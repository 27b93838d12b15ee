"""The front: one HTTP server for the pages of all services of a host, in a thread with an event loop of its own.

A slow page delays no gRPC call, since the two share no event loop; nothing here touches grpc.aio. Handlers run in
threads.

Promises: drained means that nothing new is let in, streams end at once, and what is inside ends by itself or is named.
"""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Sequence
from ipaddress import ip_address

import uvicorn

from tutti.chassis.rpc.server import CannotListen
from tutti.chassis.service import FrontHost, PagesAt
from tutti.web.admission import protocol
from tutti.web.application import Application
from tutti.web.pages import Site
from tutti.web.ports import Listening, listen
from tutti.web.simulators import Credentials, Simulators

START_SECONDS = 10.0
BACKLOG = 64
"""Connections that are accepted before others are let go: each has a descriptor."""
log = logging.getLogger(__name__)


class WebFront:
    """Serves `sites` from `start` to `close`."""

    def __init__(self, sites: Sequence[Site], host: FrontHost) -> None:
        self._settings, self._sites, self._ports = host.settings, sites, host.ports
        self._credentials = Credentials()
        self._application = Application(sites, host, self._credentials)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._application,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                http=protocol(),
                backlog=BACKLOG,
                timeout_keep_alive=30,
            )
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="pages", daemon=True)
        self._listening: Listening | None = None
        self._simulators: Simulators | None = None

    def start(self) -> PagesAt:
        """Listen. Raises CannotListen."""
        self._listening = listen(self._settings.listen, self._ports)
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise CannotListen(f"the server of pages did not start at {self._settings.listen}; look into the log")
            time.sleep(0.01)
        reachable = _reachable(self._listening.sockets[0])
        self._simulators = Simulators(self._credentials, *reachable, self._settings.deadline_seconds)
        for site in self._sites:
            site.server.post = self._simulators.post
        if self._settings.public_url:
            return PagesAt(self._settings.public_url.rstrip("/"), ports=self._listening.ports)
        base = f"http://{self._settings.host or self._settings.listen.rpartition(':')[0]}"
        url, former = f"{base}:{self._listening.ports[0]}", [f"{base}:{each}" for each in self._listening.lost]
        if former:
            log.warning("the pages are at %s, and not at %s any more", url, ", ".join(former))
        self._application.former = former
        return PagesAt(url, former, self._listening.ports)

    def drain(self, seconds: float) -> list[str]:
        """Let nothing new in and wait for what is inside; the requests that had not ended by then."""
        if not self._thread.is_alive():
            return []
        self._server.config.timeout_graceful_shutdown = max(1, round(seconds))
        self._loop.call_soon_threadsafe(self._application.draining.set)
        self._server.should_exit = True
        self._thread.join(seconds)
        return self._application.unfinished()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.force_exit = self._server.should_exit = True
            self._thread.join(1.0)
        if self._simulators is not None:
            self._simulators.close()
        if self._listening is not None:
            self._listening.close()
        self._application.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        assert self._listening is not None
        self._loop.run_until_complete(self._server.serve(sockets=[*self._listening.sockets]))


def _reachable(listening: socket.socket) -> tuple[str, int]:
    """The address at which this process reaches its own server."""
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return host, port
