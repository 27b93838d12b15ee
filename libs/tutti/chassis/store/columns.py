"""Columns of a kind of resource: computed from its message, stored beside it, and what it is selected and filtered by.

Promises: the type of a column is that of its value for an empty message: text, whole number, yes or no, or words; a
word has only characters that no pattern of SQL gives a meaning, but `_`, which is escaped.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import Message
from sqlalchemy import BigInteger, Column

from tutti.chassis.store.tables import NAME

Value = str | int | tuple[str, ...] | None
Stored = str | int | None
Index = Callable[[Any], Value]
WORD = re.compile(r"[a-z0-9][a-z0-9._-]*")
WORD_RULE = "a-z, 0-9 and ._-, starting with a letter or digit"


class Columns:
    """The columns of `kind`, whose resources are `message`."""

    def __init__(self, kind: str, message: type[Message], columns: Mapping[str, Index]) -> None:
        self._kind, self._columns = kind, dict(columns)
        self.types: dict[str, type] = {name: _type(value(message())) for name, value in self._columns.items()}

    def declared(self) -> list[Column[Any]]:
        """Return them for the table; words have no index, since they are found by a part of the text."""
        return [
            Column(name, BigInteger if issubclass(kind, int) else NAME, index=kind is not tuple)
            for name, kind in self.types.items()
        ]

    def row(self, message: Message) -> dict[str, Stored]:
        """Return what is stored for a message. Raises TypeError."""
        return {name: self._stored(name, value(message)) for name, value in self._columns.items()}

    def _stored(self, column: str, value: Value) -> Stored:
        kind = self.types[column]
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"the column {column} of {self._kind} holds {kind.__name__}, got {value!r}: its type is that of its "
                f"value for an empty message"
            )
        if isinstance(value, tuple):
            return f" {' '.join(value)} " if value else ""
        return int(value) if isinstance(value, int) else value


def having(word: str) -> str:
    """Return the pattern of SQL, with the escape `/`, for the text of a column of words that has this one."""
    return f"% {word.replace('_', '/_')} %"


def _type(empty: Value) -> type:
    return next((kind for kind in (bool, int, tuple) if isinstance(empty, kind)), str)
