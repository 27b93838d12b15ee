"""Licences of conversations: the one that a record names, and those that a set may have.

Pure. Promises: names are compared without regard to case, as a whole, and recorded in lower case. A record that names
two different licences, or none in printable text, has an unknown one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tutti.corpus.conversations.unfit import Reason, Unfit

UNKNOWN = "unknown"
OTHERS = "others"
"""The name under which the licences beyond the most frequent are counted."""
KEYS = ("license", "licence")
"""The fields of a record that name its licence."""
MOST_CHARACTERS = 100
MOST_COUNTED = 100
"""Licences that are counted by name."""
EXPECTED = f"the name of a licence, such as cc-by-4.0: at most {MOST_CHARACTERS} printable characters"


def name_of(text: str) -> str:
    """The name of a licence as it is compared and recorded."""
    return text.strip().lower()


def is_name(text: str) -> bool:
    """True for text that names a licence."""
    return 0 < len(name_of(text)) <= MOST_CHARACTERS and name_of(text).isprintable()


@dataclass(frozen=True)
class Licences:
    """`missing` is the licence of records that name none; `allowed` are those that conversations may have, any if it is
    empty.
    """

    missing: str = UNKNOWN
    allowed: frozenset[str] = frozenset()

    def of(self, record: Mapping[str, object]) -> str:
        """The licence of a record."""
        stated = [record[key] for key in KEYS if record.get(key)]
        if not stated:
            return self.missing
        names = {name_of(each) if isinstance(each, str) and is_name(each) else UNKNOWN for each in stated}
        return names.pop() if len(names) == 1 else UNKNOWN

    def refusal(self, licence: str) -> Unfit | None:
        """The reason why a conversation under this licence is rejected; None if it is not."""
        if not self.allowed or licence in self.allowed:
            return None
        expected = f"expected one of {', '.join(sorted(self.allowed))}"
        if licence == UNKNOWN:
            return Unfit(Reason.NO_LICENCE, f"no licence is known; {expected}")
        return Unfit(Reason.OTHER_LICENCE, f"{licence!a}; {expected}")


def preferred(one: str, other: str) -> str:
    """The licence of a conversation that was read under two: a known one, the first in the order of their names."""
    return min(one, other, key=lambda name: (name == UNKNOWN, name))


def bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts of the MOST_COUNTED most frequent licences, and the sum of the others."""
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    found = {name: counts[name] for name in ordered[:MOST_COUNTED]}
    if rest := sum(counts[name] for name in ordered[MOST_COUNTED:]):
        found[OTHERS] = found.get(OTHERS, 0) + rest
    return found
