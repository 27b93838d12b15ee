"""Findings: a span of a text that may identify a person or open a door.

The finders (emails.py, numerals.py, keys.py) look only into *windows*, which they find by plain search; what they do in
a window takes time in proportion to it, and windows overlap a bounded number of times. That keeps hostile text linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The kind of a finding."""

    EMAIL = "email"
    PHONE = "phone"
    KEY = "key"
    CARD = "card"
    ADDRESS = "address"  # of a host: IPv4 or IPv6, routed publicly


class Window(NamedTuple):
    """text[begin:end], and the place in it that drew attention."""

    begin: int
    end: int
    at: int


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """text[begin:end] is of this kind."""

    begin: int
    end: int
    kind: Kind
