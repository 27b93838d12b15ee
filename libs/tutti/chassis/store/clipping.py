"""Texts about a resource, cut so that they stay small.

Promises: a resource travels whole in every event about it, so nothing that is said of it can grow until none fits.
"""

REASON_BYTES = 2000  # of why a resource is as it is
CUT = "…"


def clipped(text: str, size: int = REASON_BYTES) -> str:
    """The text itself, or its beginning: at most `size` bytes of UTF-8, `…` for what is left out."""
    data = text.encode()
    if len(data) <= size:
        return text
    return data[: size - len(CUT.encode())].decode(errors="ignore") + CUT
