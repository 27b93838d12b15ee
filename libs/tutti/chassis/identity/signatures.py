"""Signatures of statements: Ed25519 (RFC 8032), keys and signatures in hexadecimal digits.

Promises: equal statements have equal signatures by one key; what is signed says what it is for, so that a signature
cannot be used for anything else.
"""

import functools
from typing import Any

SEED_BYTES = 32
RELEASE = "tutti.evaluation.v1.Release"
"""The purpose of signatures of releases."""
_MODE = "rfc8032"


class SigningKey:
    """Signs statements; `public` is the key that verifies them."""

    def __init__(self, seed: bytes) -> None:
        """`seed` is the private key, 32 random bytes."""
        ecc, self._eddsa = _ed25519()
        self._key = ecc.construct(curve="Ed25519", seed=seed)
        self.public = self._key.public_key().export_key(format="raw").hex()

    def sign(self, purpose: str, statement: str) -> str:
        """Return the signature of a statement."""
        return str(self._eddsa.new(self._key, _MODE).sign(_signed(purpose, statement)).hex())


def verifies(purpose: str, statement: str, signature: str, key: str) -> bool:
    """Return true where the signature was made of this statement by the owner of the key."""
    _, eddsa = _ed25519()
    try:
        public = eddsa.import_public_key(bytes.fromhex(key))
        eddsa.new(public, _MODE).verify(_signed(purpose, statement), bytes.fromhex(signature))
    except ValueError:
        return False
    return True


@functools.cache
def _ed25519() -> tuple[Any, Any]:
    """The modules of keys and signatures. Slow to import, and needed by few processes."""
    from Crypto.PublicKey import ECC
    from Crypto.Signature import eddsa

    return ECC, eddsa


def _signed(purpose: str, statement: str) -> bytes:
    return f"{purpose}\n{statement}".encode()
