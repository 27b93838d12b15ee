"""Names of resources: `jobs/x`, `checkpoints/x/0/100`.

Promises: the first segment is the kind; the others are plain enough for a URL, a file and a shell.
"""

import re

from tutti.chassis.errors import InvalidField

_SEGMENT = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
MAX_NAME = 400


def check_name(kind: str, name: str, *, field: str = "name") -> str:
    """The name itself. Raises InvalidField."""
    first, *rest = name.split("/")
    if first != kind or not rest or len(name) > MAX_NAME or not all(_SEGMENT.fullmatch(each) for each in rest):
        raise InvalidField(
            field,
            seen=name,
            expected=f"{kind}/ID of a-z, 0-9 and ._-, starting with a letter or digit",
        )
    return name


def check_kind(kind: str) -> str:
    if not _SEGMENT.fullmatch(kind):
        raise ValueError(f"{kind!r} is not a kind of resource: lower-case letters, digits and -")
    return kind
