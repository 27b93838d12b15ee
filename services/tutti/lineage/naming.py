"""Names of pages as people give them: the whole source, its last parts, or a piece of it.

Promises: what is whole goes before what ends so, and that before what merely holds it; of several none is chosen.
"""

import difflib
from collections.abc import Iterable
from itertools import islice

from tutti.chassis.errors import InvalidField

SHOWN, NEAR = 5, 3
COMPARED, SIMILAR = 20_000, 0.7
LEAST_ID = 8  # digits of an id that are enough to look for
_DIGITS = frozenset("0123456789abcdef")


def meant(wanted: str, sources: Iterable[str]) -> str:
    """The one source that is meant, "" where there is none. Raises InvalidField with some of them where several are."""
    known = set(sources)
    if not wanted or wanted in known:
        return wanted
    tail = f"/{wanted.lstrip('/')}"
    found = sorted(each for each in known if each.endswith(tail)) or sorted(each for each in known if wanted in each)
    if len(found) > 1:
        more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
        raise InvalidField("document", seen=wanted, expected=f"one page; there are {', '.join(found[:SHOWN])}{more}")
    return found[0] if found else ""


def near(wanted: str, sources: Iterable[str]) -> list[str]:
    """Some sources whose last part is similar to that of a name, the most similar one first.

    Compares with the last parts of the first COMPARED sources.
    """
    parts = dict[str, str]()
    for each in islice(sources, COMPARED):
        parts.setdefault(_last(each), each)
    return [parts[each] for each in difflib.get_close_matches(_last(wanted), parts, n=NEAR, cutoff=SIMILAR)]


def _last(source: str) -> str:
    return source.rstrip("/").rpartition("/")[2]


def is_beginning(wanted: str) -> bool:
    """True if it may be the prefix of an id, as tables show it."""
    return len(wanted) >= LEAST_ID and _DIGITS.issuperset(wanted)
