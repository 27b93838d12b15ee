"""Marks of a foreign tokenizer: the ids that end, begin and pad a text, and its chat template, which are not in its
`tokenizer.json`.

Such a tokenizer is stored as an object of its marks and its `tokenizer.json`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tutti.records.canonical import JsonValue

FILE = "tokenizer"


@dataclass(frozen=True)
class Marks:
    """`ends` are the ids that end a text; the first of them is written behind a text. `begin` and `padding` are ids, or
    None. `roles` are the spellings of the role tokens of a chat template of ours.

    `template` is its own chat template in jinja, "" for none; `words` are the special tokens that the template can
    name, such as `bos_token`.
    """

    ends: tuple[int, ...]
    begin: int | None = None
    padding: int | None = None
    roles: tuple[str, ...] = ()
    template: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    def of(self, file: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The object that is stored of a tokenizer with this `tokenizer.json`."""
        chat: dict[str, JsonValue] = {"template": self.template, "words": dict(self.words)} if self.template else {}
        return {
            "begin": self.begin,
            "ends": list(self.ends),
            FILE: file,
            "padding": self.padding,
            "roles": list(self.roles),
            **chat,
        }

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self | None:
        """The marks in a stored object; None for a `tokenizer.json` of ours. Raises ValueError."""
        if FILE not in stored:
            return None
        try:
            template, words = stored.get("template", ""), stored.get("words", {})
            made = cls(
                tuple(stored["ends"]), stored["begin"], stored["padding"], tuple(stored["roles"]), template, words
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"a tokenizer without {error}") from error
        if not made.ends or stored != made.of(stored[FILE]):
            raise ValueError(f"a tokenizer with {sorted(stored)}; expected {sorted(made.of({}))}, and one end or more")
        return made
