"""Ranges of IP addresses: which are the public web's, and which lead elsewhere or nowhere."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

_UNICAST = [ipaddress.ip_network(each) for each in ("0.0.0.0/0", "2000::/3")]
_SPECIAL = [
    ipaddress.ip_network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("168.63.129.16/32", "2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"),
    )
]
"""Those of IANA's registries of special addresses (RFC 6890), multicast, and the address of the host of machines in
Azure: none has a web site, routed or not. They are named here because Python knows others of them in each of its
versions.
"""
EVERY = ("0.0.0.0/0", "::/0")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """True if an IP address is public; one that maps to an IPv4 address is as public as that."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    found = _inside(found) or found
    return any(found in each for each in _UNICAST) and not any(found in each for each in _SPECIAL)


def is_within(address: str, ranges: Sequence[str]) -> bool:
    """Return whether an IP address is in one of the ranges."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = _inside(found) or found
    return any(inner in ipaddress.ip_network(each) for each in ranges)


def _inside(found: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address where an IPv6 address leads: one that is mapped, or goes by 6to4 or NAT64."""
    if isinstance(found, ipaddress.IPv4Address):
        return None
    if found in _NAT64:
        return ipaddress.IPv4Address(found.packed[-4:])
    return found.ipv4_mapped or found.sixtofour
