"""Addresses: which ones are the public web's.

Promises: an address is looked at when its socket is made, so that neither a name, nor a redirect, nor a second answer
of a name server leads to a machine inside.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Collection, Mapping
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]

_UNICAST = [ipaddress.ip_network(each) for each in ("0.0.0.0/0", "2000::/3")]
_SPECIAL = [
    ipaddress.ip_network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"),
    )
]
"""Those of IANA's registries of special addresses (RFC 6890), and multicast: none has a web site, routed or not. They
are named here because Python knows others of them in each of its versions.
"""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class PrivateAddress(OSError):
    """A connection to an address that is not of the public web."""


def is_public(address: str) -> bool:
    """Whether an IP address is of the public web; one that stands for an IPv4 address is as public as that."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    found = _inside(found) or found
    return any(found in each for each in _UNICAST) and not any(found in each for each in _SPECIAL)


def _inside(found: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address where an IPv6 address leads: one that is mapped, or goes by 6to4 or NAT64."""
    if isinstance(found, ipaddress.IPv4Address):
        return None
    if found in _NAT64:
        return ipaddress.IPv4Address(found.packed[-4:])
    return found.ipv4_mapped or found.sixtofour


class Connect(AbstractResolver):
    """Says of some hosts where they lie, and asks the name server of the others.

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
                hostname=host, host=address, port=number, family=version, proto=0, flags=socket.AI_NUMERICHOST
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


def socket_factory(
    *, allow_private: bool, named: Collection[tuple[str, int]] = ()
) -> Callable[[AddressInfo], socket.socket]:
    """Makes the sockets of a client; raises PrivateAddress for addresses that are not of the public web.

    Not for those that are `named`, with their port, and for none where `allow_private` is given.
    """

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        if not allow_private and address[:2] not in named and not is_public(str(address[0])):
            raise PrivateAddress(f"{address[0]} is a private address: set input.crawl.allow_private=true")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made

    return make
