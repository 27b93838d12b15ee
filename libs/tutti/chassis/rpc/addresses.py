"""The address that a call comes from, also where the front door passed the call on.

Promises: a service believes an address that is not its peer's only if whoever passed the call on has the secret of the
door; the secret itself is not sent.
"""

import hashlib
import hmac
from urllib.parse import unquote

FORWARDED = "forwarded-for"
"""The metadata with which the front door sends the address of its caller."""


def address_of(peer: str) -> str:
    """Return the address in gRPC's name of a peer, such as `ipv4:127.0.0.1:50123`."""
    return unquote(peer.partition(":")[2].rpartition(":")[0]) or peer


def signed(address: str, secret: str) -> str:
    """Return the value of the metadata for an address."""
    return f"{address} {_proof(address, secret)}"


def verified(value: str, secret: str) -> str:
    """Return the address in a value that was signed with this secret; empty for any other value."""
    if not value:  # most calls have none
        return ""
    address, _, proof = value.rpartition(" ")
    return address if hmac.compare_digest(_proof(address, secret).encode(), proof.encode()) else ""


def _proof(address: str, secret: str) -> str:
    return hmac.new(secret.encode(), f"tutti address {address}".encode(), hashlib.sha256).hexdigest()
