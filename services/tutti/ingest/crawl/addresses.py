"""Addresses: where hosts lie, and to which a connection is made.

Promises: an address is looked at when its socket is made, so that neither a name, nor a redirect, nor a second answer
of a name server leads to a machine inside; where a host is said to lie, no other is asked.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any

from tutti.ingest.ranges import EVERY, is_public, is_within

AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class PrivateAddress(OSError):
    """A connection to an address that is not of the public web."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} is a private address: set input.crawl.allow_private=true")


class OutOfBounds(PrivateAddress):
    """A private address that the recipe allows or names, and the operator does not."""

    def __init__(self) -> None:
        OSError.__init__(
            self, "its address is outside ingest.private_ranges, which bounds input.crawl.allow_private and connect"
        )


class Named(str):
    """The address of a host of which was said that it lies there: that host, and no other, may be asked there."""

    __slots__ = ()


def address_of(there: str) -> tuple[str, int]:
    """The IP address and the port in `127.0.0.1:8080` or `[::1]:8080`. Raises ValueError."""
    address, _, port = there.rpartition(":")
    found = ipaddress.ip_address(address.removeprefix("[").removesuffix("]"))
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ValueError(f"{port!r} is no port")
    return str(found), int(port)


def check_address(address: str, *, allow_private: bool, ranges: Sequence[str]) -> None:
    """Raise PrivateAddress for an address that may not be connected to."""
    if is_public(str(address)):
        return
    if not (allow_private or isinstance(address, Named)):
        raise PrivateAddress(str(address))
    if not is_within(str(address), ranges):
        raise OutOfBounds


def socket_factory(*, allow_private: bool, ranges: Sequence[str] = EVERY) -> Callable[[AddressInfo], socket.socket]:
    """Makes the sockets of a client; raises PrivateAddress for addresses that are not of the public web.

    Not for those that are Named, and for none where `allow_private` is given, if they are in `ranges`.
    """

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, (address, *_) = info
        check_address(address, allow_private=allow_private, ranges=ranges)
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made

    return make
