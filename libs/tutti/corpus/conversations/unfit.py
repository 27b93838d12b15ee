"""Refusals of records: the reason why one is not a conversation, and how its values are shown.

Pure. Promises: what is shown of a record is printable, and short.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

SHOWN = 60
"""Characters of a text that are shown."""
Object = Mapping[str, Any]


class Reason(StrEnum):
    """The reason why a record is not a conversation."""

    OTHER_FILE = "other_file"  # no JSON lines and no JSON
    UNREADABLE = "unreadable"  # a file that cannot be opened, or is a link out of the folder
    DAMAGED = "damaged"  # cut short, or what cannot be decompressed
    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    UNKNOWN_LAYOUT = "unknown_layout"
    OTHER_LAYOUT = "other_layout"  # than the records before it in the file
    NOT_A_STRING = "not_a_string"
    NOT_A_TRANSCRIPT = "not_a_transcript"
    NO_MESSAGE = "no_message"
    EMPTY_MESSAGE = "empty_message"
    UNKNOWN_ROLE = "unknown_role"
    ROLE_ORDER = "role_order"  # a system message that is not the first, or is the only one
    LONE_SURROGATE = "lone_surrogate"
    NO_ANSWER = "no_answer"  # of an assistant, in a pair of answers
    OTHER_PROMPT = "other_prompt"  # two answers of a pair to different prompts
    UNREAD_FIELD = "unread_field"  # that changes the meaning of the record
    INVERTED_SCORES = "inverted_scores"  # the rejected answer has the higher score
    UNKNOWN_SCORE = "unknown_score"
    TWICE = "twice"
    OTHER_LICENCE = "other_licence"  # than those that are allowed
    NO_LICENCE = "no_licence"  # that is known, where only some are allowed


class Unfit(Exception):
    """A record is no conversation: the reason, and in `detail` what was seen and what was expected."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def field_name(name: str) -> str:
    """The name of a field as it is, or if it is empty, long or has characters that cannot be shown, a part of it in
    quotation marks and escaped.
    """
    return name if name and len(name) <= SHOWN and name.isprintable() else shown(name)


def kind_of(value: object) -> str:
    """The type of a value of JSON in words."""
    names = {"NoneType": "missing or null", "dict": "an object", "list": "a list", "str": "a string"}
    return names.get(type(value).__name__, type(value).__name__)


def shown(text: str) -> str:
    """The first characters of a text in quotation marks, and escaped."""
    return ascii(text[:SHOWN])
