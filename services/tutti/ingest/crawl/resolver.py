"""The resolver of a client: where hosts lie, as was said, or as a name server says.

Promises: of a name with several addresses only the public ones are tried, and one without any is refused as such. Were
it left to the sockets, an error of several addresses would not say that they are private.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from tutti.ingest.crawl.addresses import Named, PrivateAddress, address_of, check_address
from tutti.ingest.ranges import EVERY


class Connect(AbstractResolver):
    """Says of some hosts where they lie, Named, and asks the name server of the others.

    `where` has `address:port`, an IP address, by host or by `host:port`. Raises PrivateAddress for a name without a
    public address, unless `allow_private` is given.
    """

    def __init__(self, where: Mapping[str, str], *, allow_private: bool, ranges: Sequence[str] = EVERY) -> None:
        self._where, self._others = where, ThreadedResolver()
        self._allow_private, self._ranges = allow_private, ranges

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        there = self._where.get(f"{host}:{port}") or self._where.get(host)
        if there is None:
            found = await self._others.resolve(host, port, family)
            allowed = [each for each in found if self._is_allowed(each["host"])]
            if found and not allowed:
                check_address(found[0]["host"], allow_private=self._allow_private, ranges=self._ranges)
            return allowed
        address, number = address_of(there)
        version = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [
            ResolveResult(
                hostname=host, host=Named(address), port=number, family=version, proto=0, flags=socket.AI_NUMERICHOST
            )
        ]

    def _is_allowed(self, address: str) -> bool:
        try:
            check_address(address, allow_private=self._allow_private, ranges=self._ranges)
        except PrivateAddress:
            return False
        return True

    async def close(self) -> None:
        await self._others.close()
