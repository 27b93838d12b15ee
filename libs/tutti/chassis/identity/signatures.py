"""Signatures of statements: Ed25519 (RFC 8032), keys and signatures in hexadecimal digits.

Promises: equal statements have equal signatures by one key; what is signed says what it is for, so that a signature
cannot be used for anything else.
"""

from typing import Any

SEED_BYTES = 32
RELEASE = "tutti.evaluation.v1.Release"
"""The purpose of signatures of releases."""
_MODE = "rfc8032"


class SigningKey:
    """Signs statements; `public` is the key that verifies them."""

    def __init__(self, seed: bytes) -> None:
        """`seed` is the private key, 32 random bytes."""
        self._key = _ed25519().Ed25519PrivateKey.from_private_bytes(seed)
        self.public = str(self._key.public_key().public_bytes_raw().hex())

    def sign(self, purpose: str, statement: str) -> str:
        """Return the signature of a statement."""
        return str(self._key.sign(_signed(purpose, statement)).hex())


def verifies(purpose: str, statement: str, signature: str, key: str) -> bool:
    """Return true where the signature was made of this statement by the owner of the key."""
    from cryptography.exceptions import InvalidSignature

    try:
        public = _ed25519().Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), _signed(purpose, statement))
    except (ValueError, InvalidSignature):
        return False
    return True


def _ed25519() -> Any:
    """The module of keys. It takes 6 MiB, and few processes need it."""
    from cryptography.hazmat.primitives.asymmetric import ed25519

    return ed25519


def _signed(purpose: str, statement: str) -> bytes:
    return f"{purpose}\n{statement}".encode()
