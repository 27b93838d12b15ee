"""Addresses of callers: what the front door signs, and what nobody else can."""

import pytest

from tutti.chassis.identity.auth import HELD, Role, Tokens
from tutti.chassis.rpc.addresses import address_of, signed, verified

TOKENS = Tokens.random()
SECRET = TOKENS.door_secret
VALUE = signed("192.0.2.7", SECRET)


def test_what_the_door_signed_is_believed() -> None:
    assert verified(VALUE, SECRET) == "192.0.2.7"
    assert verified(signed("[2001:db8::1]", SECRET), SECRET) == "[2001:db8::1]"


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "192.0.2.7",
        "192.0.2.7 ",
        VALUE.replace("192.0.2.7", "192.0.2.8"),
        VALUE[:-1],
        signed("192.0.2.7", Tokens.random().door_secret),
        *(signed("192.0.2.7", TOKENS.of(role)) for role in HELD),
        signed("192.0.2.7", ""),
    ],
    ids=lambda value: "forged",  # the values are random
)
def test_what_nobody_signed_with_the_secret_of_the_door_is_not(forged: str) -> None:
    assert verified(forged, SECRET) == ""


def test_the_secret_of_the_door_is_no_token() -> None:
    assert SECRET not in TOKENS.text()
    assert TOKENS.role_of(SECRET) is None
    assert Tokens({role: TOKENS.of(role) for role in (Role.SERVICE, Role.AGENT)}).door_secret == SECRET


def test_the_port_and_the_protocol_are_no_part_of_an_address() -> None:
    assert address_of("ipv4:127.0.0.1:50123") == "127.0.0.1"
    assert address_of("ipv6:%5B::1%5D:50123") == "[::1]"
    assert address_of("unix:") == "unix:"
