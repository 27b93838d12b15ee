"""Values as text for a person: numbers, times, digests, and texts that a terminal may show."""

import re
from typing import Any

from tutti.client.plain import Plain

_MOMENT = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$")
_DOCUMENT = re.compile(r"\b(documents/[0-9a-f]{12})[0-9a-f]{52}\b")
_OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")


def printable(text: str, *, kept: str = "") -> str:
    """Text of elsewhere as a terminal may have it: of what it would obey (controls, changes of direction) the escapes
    are shown, but for the characters `kept`.
    """
    return _OBEYED.sub(lambda found: found[0] if found[0] in kept else repr(found[0])[1:-1], text)


def shown(value: Any, *, short: bool = False) -> str:
    """A value for a person, on one line: numbers grouped, times to the second; `short` cuts digests and ids of
    documents.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return inline(value)
    text = _MOMENT.sub(r"\1Z", printable(str(value)))
    if not short:
        return text
    return text[:19] if text.startswith("blake3:") else brief(text)


def brief(text: str) -> str:
    """A text with the ids of documents cut to as many digits as are enough to find them by."""
    return _DOCUMENT.sub(r"\1", text)


def inline(value: Plain) -> str:
    """Return the fields of a message that are set, on one line."""
    return " ".join(
        f"{printable(key)}={shown(item)}" for key, item in value.items() if item not in ("", None, [], 0, False)
    )
