"""The resolver of a client: where hosts lie, as was said, or as a name server says."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from tutti.ingest.crawl.addresses import Named, address_of


class Connect(AbstractResolver):
    """Says of some hosts where they lie, Named, and asks the name server of the others.

    `where` has `address:port`, an IP address, by host or by `host:port`.
    """

    def __init__(self, where: Mapping[str, str]) -> None:
        self._where, self._others = where, ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        there = self._where.get(f"{host}:{port}") or self._where.get(host)
        if there is None:
            return await self._others.resolve(host, port, family)
        address, number = address_of(there)
        version = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [
            ResolveResult(
                hostname=host, host=Named(address), port=number, family=version, proto=0, flags=socket.AI_NUMERICHOST
            )
        ]

    async def close(self) -> None:
        await self._others.close()
