"""Addresses by which ranks of other nodes reach this node.

Promises: a host name is resolved once, when the agent starts; `moved` says when the result is no longer true, as in a
container that was cut off from its network and got another address when it came back.
"""

import ipaddress
import socket
from collections.abc import Collection

import psutil


def resolved(address: str) -> str:
    """An IP address as it is, a host name as the IPv4 address that it has now. Raises ValueError."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(address, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ValueError(
            f"{address!r}: expected an IP address of this machine, such as 10.0.0.7, or a name that resolves to one "
            f"({error})"
        ) from None
    return str(found[0][4][0])


def of_this_machine() -> set[str]:
    """The addresses of this machine's interfaces, of every kind."""
    return {entry.address for entries in psutil.net_if_addrs().values() for entry in entries}


def moved(address: str, present: Collection[str]) -> bool:
    """True if the node has another address now. A node without any is cut off, and may get its address back."""
    return address not in present and any(_is_routable(each) for each in present)


def _is_routable(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:  # a hardware address, or one with a scope
        return False
    return not (found.is_loopback or found.is_link_local)
