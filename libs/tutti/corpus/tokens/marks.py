"""Marks of a foreign tokenizer: the ids that end, begin and pad a text, which its `tokenizer.json` does not contain.

Such a tokenizer is stored as an object of its marks and its `tokenizer.json`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tutti.records.canonical import JsonValue

FILE = "tokenizer"


@dataclass(frozen=True)
class Marks:
    """`ends` are the ids that end a text; the first of them is written behind a text. `begin` and `padding` are ids, or
    None. `roles` are the spellings of the role tokens of a chat template.
    """

    ends: tuple[int, ...]
    begin: int | None = None
    padding: int | None = None
    roles: tuple[str, ...] = ()

    def of(self, file: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The object that is stored of a tokenizer with this `tokenizer.json`."""
        return {
            "begin": self.begin,
            "ends": list(self.ends),
            FILE: file,
            "padding": self.padding,
            "roles": list(self.roles),
        }

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self | None:
        """The marks in a stored object; None for a `tokenizer.json` of ours. Raises ValueError."""
        if FILE not in stored:
            return None
        try:
            made = cls(tuple(stored["ends"]), stored["begin"], stored["padding"], tuple(stored["roles"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"a tokenizer without {error}") from error
        if not made.ends or stored != made.of(stored[FILE]):
            raise ValueError(f"a tokenizer with {sorted(stored)}; expected {sorted(made.of({}))}, and one end or more")
        return made
