"""Addresses: which ones are the public web's.

Promises: an address is looked at when its socket is made, so that neither a name, nor a redirect, nor a second answer
of a name server leads to a machine inside.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class PrivateAddress(OSError):
    """A connection to an address that is not of the public web."""


def is_public(address: str) -> bool:
    """Whether an IP address is routed publicly; one that carries an IPv4 address inside is judged by that too."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inside: list[ipaddress.IPv4Address] = []
    if isinstance(found, ipaddress.IPv6Address):
        inside = [each for each in (found.ipv4_mapped, found.sixtofour, *(found.teredo or ())) if each is not None]
        if found in ipaddress.IPv6Network("64:ff9b::/96"):
            inside.append(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF))
    mapped = isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None
    return all(each.is_global and not each.is_multicast for each in (*inside, *(() if mapped else (found,))))


def socket_factory(*, allow_private: bool) -> Callable[[AddressInfo], socket.socket]:
    """Makes the sockets of a client; raises PrivateAddress where `allow_private` is not given."""

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        if not allow_private and not is_public(str(address[0])):
            raise PrivateAddress(f"{address[0]} is no address of the public web")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made

    return make
