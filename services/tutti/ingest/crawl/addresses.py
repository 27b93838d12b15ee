"""Addresses: where hosts lie, and to which a connection is made.

Promises: an address is looked at when its socket is made, so that neither a name, nor a redirect, nor a second answer
of a name server leads to a machine inside; where a host is said to lie, no other is asked.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from tutti.ingest.ranges import is_public

AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class PrivateAddress(OSError):
    """A connection to an address that is not of the public web."""


class Named(str):
    """The address of a host of which was said that it lies there: that host, and no other, may be asked there."""

    __slots__ = ()


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


def address_of(there: str) -> tuple[str, int]:
    """The IP address and the port in `127.0.0.1:8080` or `[::1]:8080`. Raises ValueError."""
    address, _, port = there.rpartition(":")
    found = ipaddress.ip_address(address.removeprefix("[").removesuffix("]"))
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ValueError(f"{port!r} is no port")
    return str(found), int(port)


def socket_factory(*, allow_private: bool) -> Callable[[AddressInfo], socket.socket]:
    """Makes the sockets of a client; raises PrivateAddress for addresses that are not of the public web.

    Not for those that are Named, and for none where `allow_private` is given.
    """

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, (address, *_) = info
        if not (allow_private or isinstance(address, Named) or is_public(str(address))):
            raise PrivateAddress(f"{address} is a private address: set input.crawl.allow_private=true")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made

    return make
