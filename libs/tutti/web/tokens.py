"""Secrets of a browser: the tokens of links and sessions, and what is derived from them.

Promises: a token has 256 random bits; other machines and the database see its digest only.
"""

import hashlib
import hmac
import secrets

ID_DIGITS = 16
"""The first hexadecimal digits of a digest, which name a token where it is listed."""
FIELD, HEADER = "form_token", "x-form-token"
"""The field of forms, and the header of calls, with the token of their session."""
PLATFORM = "tutti-platform"
"""The header of every answer with the id of the platform: a page whose address another program has taken since does not
mistake the answers of that program for ours."""


def new_token() -> str:
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """SHA-256 in hexadecimal. A slow hash would protect nothing: the token is random, not chosen by a person."""
    return hashlib.sha256(token.encode()).hexdigest()


def form_token(session_token: str) -> str:
    """The token that every form of this session carries: a page of another site cannot compute it."""
    return hmac.new(session_token.encode(), b"tutti form", hashlib.sha256).hexdigest()


def same(one: str, other: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def cookie_name(secret: bytes, *, secure: bool) -> str:
    """One name a platform: cookies do not distinguish ports, and a machine may have several platforms."""
    name = f"tutti-{platform_id(secret)}"
    return f"__Host-{name}" if secure else name


def platform_id(secret: bytes) -> str:
    """The id by which browsers distinguish platforms."""
    return hmac.new(secret, b"cookie name", hashlib.sha256).hexdigest()[:8]
