"""Fetching a file of the platform: piece by piece, and compared with its digest."""

from collections.abc import Callable
from pathlib import Path

from tutti.client.unusable import Unusable
from tutti.records.canonical import file_digest


def fetch(piece: Callable[[int], bytes], to: Path, *, size: int, digest: str, name: str, otherwise: str) -> None:
    """Fetch `size` bytes into a new file; `piece` gives some of those from a place on.

    Raises Unusable, which says what to do `otherwise`, when the bytes are not those that were digested.
    """
    with to.open("xb") as file:
        while file.tell() < size and (data := piece(file.tell())):
            file.write(data)
    if (seen := file_digest(to)) != digest:
        raise Unusable(f"{name} came with digest {seen}, expected {digest}; {otherwise}")
