"""Fields of records and of messages, by the sense of their names in datasets of every layout.

Pure. Promises: a field that makes an answer a bad one or no example, or without which a record means something else,
is refused by name unless its value says the opposite; so is a value of another type. Names are compared as words
(`System`, `chosen-rating` and `chosenRating` are `system` and `chosen_rating`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from enum import Enum, auto
from functools import lru_cache

from tutti.corpus.conversations.unfit import SHOWN, Object, Reason, Unfit, field_name


class Sense(Enum):
    """The sense of a field.

    SYSTEM is a system message, TEXT a part of a prompt or an answer, BESIDE what a text refers to. GOOD is true for a
    good answer, TRAINED for an example, MASKED for none, TIE for two answers that are equally good; SCORE says how good
    an answer is, CHOSEN and REJECTED that of one of two, MARGIN by how much the chosen one is better.
    """

    SYSTEM = auto()
    TEXT = auto()
    BESIDE = auto()
    GOOD = auto()
    TRAINED = auto()
    MASKED = auto()
    TIE = auto()
    SCORE = auto()
    CHOSEN = auto()
    REJECTED = auto()
    MARGIN = auto()


_NAMES = {
    Sense.SYSTEM: "system system_prompt system_message sys_prompt",
    Sense.TEXT: "prompt instruction input question query history context documents completion response output answer",
    Sense.BESIDE: "tools functions image images video videos audio audios tool_calls function_call refusal "
    "train_detail",
    Sense.GOOD: "label kto_tag",
    Sense.TRAINED: "weight train trainable training loss",
    Sense.MASKED: "mask masked",
    Sense.TIE: "tie is_tie",
}
_SENSES = {name: sense for sense, names in _NAMES.items() for name in names.split()}
_SCORES = frozenset(("score", "rating", "reward"))
_MARGINS = frozenset(("margin", "gap", "difference", "diff"))
_QUALIFIERS = frozenset(("overall", "average", "avg", "mean", "final", "total"))
_SIDES = {"chosen": Sense.CHOSEN, "rejected": Sense.REJECTED}
_WORD = re.compile(r"[A-Z]?[^\W_A-Z]+|[A-Z]+(?![a-z])")
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
Score = int | float


@lru_cache(4096)
def sense_of(name: str) -> Sense | None:
    """The sense of a field by its name; None for a name that has none here."""
    words = _words(name)
    found = _SENSES.get("_".join(words))
    if found is not None or not words:
        return found
    sides, rest = [word for word in words if word in _SIDES], [word for word in words if word not in _SIDES]
    if len(sides) > 1 or not rest or not {*rest[:-1]} <= _SCORES | _QUALIFIERS:
        return None
    if rest[-1] in _MARGINS and not sides:
        return Sense.MARGIN
    if rest[-1] not in _SCORES:
        return None
    return _SIDES[sides[0]] if sides else Sense.SCORE


def measure_of(name: str) -> str:
    """The name of a score without the answer that it is of."""
    return " ".join(word for word in _words(name) if word not in _SIDES)


def stated(value: object) -> bool | None:
    """True for true and a positive number, False for false, 0 and a negative one, also as text; None for others."""
    number = _number(value)
    return None if number is None else number > 0


def is_flag(value: object) -> bool:
    """True for true, false, 1 and 0."""
    return _number(value) in (0, 1)


def require(fields: Object, senses: Collection[Sense], of: str = "") -> None:
    """Raise Unfit for a field of one of these senses that changes the meaning of a record, or `of` a part of it."""
    for name, value in fields.items():
        sense = sense_of(name)
        if value is None or sense not in senses:
            continue
        if sense is Sense.BESIDE:
            if value:
                raise unread(name, of)
        elif stated(value) is not (sense is not Sense.MASKED):
            expected = "false" if sense is Sense.MASKED else "true, or a positive number"
            seen = f"{field_name(name)}{of} is {value!r:.30}"
            raise Unfit(Reason.UNREAD_FIELD, f"{seen}, which marks a bad answer or no example; expected {expected}")


def is_trained(message: Object) -> bool:
    """False if a message is no example, but a part of the prompt of later ones. Raises Unfit."""
    trained = True
    for name, value in message.items():
        sense = sense_of(name)
        if value is None or sense not in (Sense.TRAINED, Sense.MASKED):
            continue
        if not is_flag(value):
            seen = f"{field_name(name)} of a message is {value!r:.30}"
            raise Unfit(Reason.UNREAD_FIELD, f"{seen}; expected 0 or 1, or true or false")
        trained = trained and stated(value) is (sense is Sense.TRAINED)
    return trained


def unread(name: str, of: str = "") -> Unfit:
    """The refusal of a field without which a record means something else."""
    return Unfit(Reason.UNREAD_FIELD, f"{field_name(name)}{of} is not read and changes the meaning; expected none")


def chosen_first(record: Object) -> bool:
    """True if the chosen answer is better by every score, or has none; False for a tie.

    Scores are fields of the record, or of the last message of each answer. Raises Unfit if the rejected answer has a
    higher score, if only one of them has a score, and if scores are no numbers.
    """
    ties = [value for name, value in record.items() if sense_of(name) is Sense.TIE and value is not None]
    if any(stated(value) is None for value in ties):
        raise Unfit(Reason.UNKNOWN_SCORE, f"a tie is {ties[0]!r:.30}; expected true or false")
    found = list(_scores(record))
    for chosen, rejected in found:
        # A number of JSON may be too large to be formatted as a float.
        seen = f"the chosen answer has the score {chosen!r:.30}, the rejected one {rejected!r:.30}"
        if not isinstance(chosen, int | float) or not isinstance(rejected, int | float):
            raise Unfit(Reason.UNKNOWN_SCORE, f"{seen}; expected two numbers, or none")
        if not chosen >= rejected:
            raise Unfit(Reason.INVERTED_SCORES, f"{seen}; expected at least as much for the chosen one")
    return not any(map(stated, ties)) and (not found or any(chosen != rejected for chosen, rejected in found))


def _scores(record: Object) -> Iterator[tuple[object, object]]:
    """The scores of the chosen and the rejected answer, once for each measure; a margin is one over 0."""
    found = dict[tuple[str, str], dict[Sense, object]]()
    for name, value in record.items():
        sense = sense_of(name)
        if value is None:
            continue
        if sense is Sense.MARGIN:
            yield value, 0
        elif sense in (Sense.CHOSEN, Sense.REJECTED):
            found.setdefault(("record", measure_of(name)), {})[sense] = value
    for side, sense in _SIDES.items():
        said = record.get(side)
        answer = said[-1] if isinstance(said, list) and said else said
        for name, value in answer.items() if isinstance(answer, dict) else ():
            if value is not None and sense_of(name) is Sense.SCORE:
                found.setdefault(("message", measure_of(name)), {})[sense] = value
    for scores in found.values():
        yield scores.get(Sense.CHOSEN), scores.get(Sense.REJECTED)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)] if len(name) <= SHOWN else []


def _number(value: object) -> Score | None:
    if isinstance(value, str):
        text = value.strip().lower()
        try:
            value = _TRUTHS[text] if text in _TRUTHS else float(text)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and value == value else None
