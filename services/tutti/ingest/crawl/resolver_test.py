"""The addresses of a host: those that were named, else the public ones that a name server knows."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tutti.ingest.crawl.addresses import Named, PrivateAddress
from tutti.ingest.crawl.resolver import Connect

SEVERAL = ("::1", "1.2.3.4", "10.0.0.1", "2a00::1")


def knowing(*addresses: str) -> Callable[..., list[Any]]:
    """Return a `getaddrinfo` that gives these addresses for every name, in this order."""

    def getaddrinfo(host: str, port: int, *_: object, **__: object) -> list[Any]:
        v4 = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses if ":" not in each]
        v6 = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (each, port, 0, 0)) for each in addresses if ":" in each]
        return sorted(v4 + v6, key=lambda each: addresses.index(each[4][0]))

    return getaddrinfo


def addresses(host: str, *, allow_private: bool = False) -> list[str]:
    async def run() -> list[str]:
        resolver = Connect({"named.example": "127.0.0.1:9"}, allow_private=allow_private)
        return [each["host"] for each in await resolver.resolve(host, 80)]

    return asyncio.run(run())


def test_of_several_addresses_only_the_public_ones_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", knowing(*SEVERAL))
    assert addresses("several.example") == ["1.2.3.4", "2a00::1"]
    assert addresses("several.example", allow_private=True) == list(SEVERAL)


def test_a_name_without_a_public_address_is_refused_unless_its_address_was_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", knowing("::1", "127.0.0.1"))
    with pytest.raises(PrivateAddress):
        addresses("several.example")
    (named,) = addresses("named.example")
    assert isinstance(named, Named)
