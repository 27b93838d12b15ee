"""Messages of annotators to the owner of a campaign, such as questions and appeals, and the answers.

Promises: a message arrives once, in whatever state the annotator and the campaign are; an annotator sees his or her own
messages alone.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Select, Table, bindparam, func, insert, select, update

from tutti.annotation.judging.judgements import id_of, is_text
from tutti.annotation.judging.records import Annotator
from tutti.annotation.tables import Tables
from tutti.chassis.errors import InvalidField, NotFound, Refused, declare
from tutti.chassis.store.statements import prepared
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import Message as WireMessage

LONGEST, MOST = 2000, 50
FULL = "TOO_MANY_MESSAGES"
declare({FULL: f"an annotator wrote {MOST} messages to the owner of a campaign, which is the limit"})


@dataclass(frozen=True)
class Message:
    """`sent_at` in microseconds; `answer` is empty until there is one."""

    id: str
    annotator: str
    words: str
    sent_at: int
    answer: str
    answerer: str


@dataclass(frozen=True)
class Answer:
    """The text of an answer and the user who gives it; one that is `only_checked` is not stored."""

    text: str
    answerer: str
    only_checked: bool = False


def checked(field: str, words: object) -> str:
    """The words of a message or an answer. Raises InvalidField."""
    if not isinstance(words, str) or not words.strip() or len(words) > LONGEST:
        seen = f"{len(words)} characters" if isinstance(words, str) else type(words).__name__
        raise InvalidField(field, seen=seen, expected=f"1 to {LONGEST} characters of text")
    if not is_text(words):
        raise InvalidField(field, seen="characters that are not Unicode text", expected="text")
    return words.strip()


def keep(tables: Tables, unit: Unit, annotator: Annotator, id: object, words: object) -> None:
    """Store a message; the same one again changes nothing. Raises InvalidField, Refused."""
    table, text = tables.messages, checked("words", words)
    if not (own := id_of({"id": id})):
        raise InvalidField("id", seen=str(id)[:100], expected="a UUID of version 4 in lower case")
    known = unit.tx.execute(select(table).where(table.c.id == own)).first()
    if known is not None:
        if (known.campaign, known.annotator, json.loads(known.words)) != (annotator.campaign, annotator.key, text):
            raise InvalidField("id", seen=own, expected="a new id: this one belongs to another message")
        return
    mine = (table.c.campaign == annotator.campaign, table.c.annotator == annotator.key)
    if unit.tx.execute(select(func.count()).select_from(table).where(*mine)).scalar_one() >= MOST:
        raise Refused(FULL, f"you have written {MOST} messages in this campaign, which is the most; expected no more")
    row = {"id": own, "campaign": annotator.campaign, "annotator": annotator.key, "words": json.dumps(text)}
    unit.tx.execute(insert(table), {**row, "sent_at": micros(unit.now), "answer": "", "answerer": ""})


def sent(tables: Tables, unit: Unit, campaign: str, *, annotator: str = "") -> Sequence[Message]:
    """All messages of a campaign, or of one of its annotators, in order of arrival."""
    table = tables.messages
    conditions = [table.c.campaign == campaign, *([table.c.annotator == annotator] if annotator else [])]
    rows = unit.tx.execute(select(table).where(*conditions).order_by(table.c.sent_at, table.c.id)).all()
    return [
        Message(
            row.id,
            row.annotator,
            json.loads(row.words),
            row.sent_at,
            json.loads(row.answer) if row.answer else "",
            row.answerer,
        )
        for row in rows
    ]


def count(tables: Tables, unit: Unit, campaign: str) -> int:
    """The number of messages about a campaign."""
    table = tables.messages
    found = select(func.count()).select_from(table).where(table.c.campaign == campaign)
    return int(unit.tx.execute(found).scalar_one())


def answered(tables: Tables, unit: Unit, annotator: Annotator) -> int:
    """The number of an annotator's messages that have an answer."""
    given = {"of": annotator.campaign, "by": annotator.key}
    return int(unit.tx.execute(_answered(tables.messages), given).scalar_one())


@prepared
def _answered(table: Table) -> Select[Any]:
    mine = (table.c.campaign == bindparam("of"), table.c.annotator == bindparam("by"), table.c.answer != "")
    return select(func.count()).select_from(table).where(*mine)


def answer(tables: Tables, unit: Unit, campaign: str, id: str, made: Answer) -> Message:
    """Record the answer to a message; the newest counts. Raises NotFound, InvalidField."""
    text = checked("text", made.text)
    found = next((each for each in sent(tables, unit, campaign) if each.id == id), None)
    if found is None:
        raise NotFound(f"the message {id[:100]} of {campaign}")
    if not made.only_checked:
        values = {"answer": json.dumps(text), "answerer": made.answerer}
        unit.tx.execute(update(tables.messages).where(tables.messages.c.id == id).values(values))
    return replace(found, answer=text, answerer=made.answerer)


def wire(campaign: str, message: Message) -> WireMessage:
    """The message as a call returns it."""
    made = WireMessage(
        campaign=campaign,
        id=message.id,
        annotator=message.annotator,
        text=message.words,
        answer=message.answer,
        answerer=message.answerer,
    )
    made.sent_at.FromMicroseconds(message.sent_at)
    return made
