"""Conversations of people with models: who said what, as a tree of messages.

Promises: a conversation exists for its user alone, operators included; a change names the revision that it saw, and is
refused if another came first, so that nothing is lost or doubled; rows are no events, so no text of them leaves the
database but to its user.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, Column, Index, MetaData, Row, Table, Text, delete, func, or_, select, update
from sqlalchemy.sql import ColumnElement

from tutti.chassis.errors import InvalidField, NotFound, Refused, declare
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.tables import NAME, from_micros, micros
from tutti.chassis.store.tables import declare as declare_table
from tutti.chassis.store.unit import Unit
from tutti.chat.records import CANCELLED
from tutti.chat.saying import FILTERED

USER, ASSISTANT = "user", "assistant"
WHOLE, RUNNING, STOPPED, FAILED = "whole", "running", "stopped", "failed"
"""States of a message: an answer that was stopped or failed has the text until then."""
MOST_BYTES = 64 << 10
"""Bytes of a message that a person writes, at most."""
MOST_TITLE, MOST_FOUND, MOST_MESSAGES, MOST_SEARCH = 200, 200, 4000, 200
CHANGED, ANSWERING, FULL = "CONVERSATION_CHANGED", "STILL_ANSWERING", "CONVERSATION_FULL"
declare(
    {
        CHANGED: "the conversation was changed in another tab; read it again, and send the message then",
        ANSWERING: "an answer of the conversation has not ended; wait for its end, or stop it",
        FULL: f"the conversation has {MOST_MESSAGES} messages, the most that one can have; begin another",
    }
)


@dataclass(frozen=True)
class Conversation:
    """`revision` grows with every message that begins or ends; `settings` are those of the last answer."""

    id: str
    title: str
    revision: int
    settings: dict[str, Any]
    changed_at: str

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "title": self.title,
            "revision": self.revision,
            "settings": self.settings,
            "changed_at": self.changed_at,
        }


@dataclass(frozen=True)
class Message:
    """`parent` is the message before, empty for the first; messages with one parent are branches.

    Of an answer, `finished` says why it ended, `reason` what made it fail, `answer` names its record, and `unsent` is
    the number of the oldest messages of its branch that its model did not see, because they did not fit. An answer that
    continues another one begins with `given` tokens of which a person chose the last, and the other one had the rest.
    """

    id: str
    parent: str
    role: str
    text: str
    state: str = WHOLE
    finished: str = ""
    reason: str = ""
    answer: str = ""
    model: str = ""
    unsent: int = 0
    given: int = 0
    written_at: str = field(default="", compare=False)

    def to_json(self) -> dict[str, object]:
        return dict(self.__dict__)


class Conversations:
    """The rows; each method checks that the conversation is the principal's own, and raises NotFound otherwise."""

    def __init__(self, metadata: MetaData) -> None:
        self._conversations = declare_table(
            "conversations",
            metadata,
            Column("id", NAME, primary_key=True),
            Column("user", NAME, nullable=False),
            Column("tenant", NAME, nullable=False),
            Column("title", Text, nullable=False),
            Column("revision", BigInteger, nullable=False),
            Column("settings", Text, nullable=False),
            Column("changed_at", BigInteger, nullable=False),
            Index("conversations_user", "tenant", "user", "changed_at"),
        )
        self._messages = declare_table(
            "conversation_messages",
            metadata,
            Column("id", NAME, primary_key=True),
            Column("conversation", NAME, nullable=False),
            Column("revision", BigInteger, nullable=False),
            Column("parent", NAME, nullable=False),
            Column("role", NAME, nullable=False),
            Column("text", Text, nullable=False),
            Column("state", NAME, nullable=False),
            Column("finished", NAME, nullable=False),
            Column("reason", Text, nullable=False),
            Column("answer", NAME, nullable=False, index=True),
            Column("model", NAME, nullable=False),
            Column("unsent", BigInteger, nullable=False),
            Column("written_at", BigInteger, nullable=False),
            Column("given", BigInteger, nullable=False, server_default="0"),
            Index("conversation_messages_order", "conversation", "revision"),
        )

    @property
    def tables(self) -> list[Table]:
        return [self._conversations, self._messages]

    def find_all(self, unit: Unit, who: Principal, words: str = "") -> list[Conversation]:
        """The newest conversations of a user, at most MOST_FOUND, whose title or messages have these words."""
        table, said = self._conversations, self._messages
        query = select(table).where(*self._own(who))
        if words:
            inside = select(said.c.conversation).where(said.c.text.icontains(words, autoescape=True))
            query = query.where(or_(table.c.title.icontains(words, autoescape=True), table.c.id.in_(inside)))
        rows = unit.tx.execute(query.order_by(table.c.changed_at.desc(), table.c.id).limit(MOST_FOUND))
        return [_conversation(row) for row in rows]

    def get(self, unit: Unit, who: Principal, ident: str) -> Conversation:
        """Raises NotFound."""
        table = self._conversations
        row = unit.tx.execute(select(table).where(table.c.id == ident, *self._own(who))).first()
        if row is None:
            raise NotFound(f"the conversation {ident[:100]!r}")
        return _conversation(row)

    def messages(self, unit: Unit, ident: str) -> list[Message]:
        """The messages of a conversation, each behind its parent."""
        table = self._messages
        query = select(table).where(table.c.conversation == ident).order_by(table.c.revision, table.c.role.desc())
        return [_message(row) for row in unit.tx.execute(query)]

    def conversation_of(self, unit: Unit, answer: str) -> str:
        """The conversation that an answer belongs to; empty if there is none."""
        table = self._messages
        found = unit.tx.execute(select(table.c.conversation).where(table.c.answer == answer)).scalar()
        return str(found or "")

    def text_of(self, unit: Unit, who: Principal, answer: str) -> str:
        """The text of an answer in a conversation. Raises NotFound."""
        table, ident = self._messages, self.conversation_of(unit, answer) if answer else ""
        self.get(unit, who, ident)
        return str(unit.tx.execute(select(table.c.text).where(table.c.answer == answer)).scalar_one())

    def begin(self, unit: Unit, who: Principal, ident: str, title: str) -> None:
        """A new conversation, without messages and at revision 0. Raises Refused if it was begun before."""
        table = self._conversations
        if unit.tx.execute(select(table.c.id).where(table.c.id == ident)).first() is not None:
            check_revision(self.get(unit, who, ident), 0)
        row = {"id": ident, "user": who.user, "tenant": who.tenant, "title": titled(title), "revision": 0}
        unit.insert_new(table, [{**row, "settings": "{}", "changed_at": micros(unit.now)}])

    def add(
        self,
        unit: Unit,
        who: Principal,
        ident: str,
        revision: int,
        said: Sequence[Message],
        settings: Mapping[str, Any],
    ) -> None:
        """Add messages to a conversation that is at the revision that was seen. Raises Refused, NotFound."""
        table = self._conversations
        values = {
            "revision": revision + 1,
            "settings": json.dumps(settings, ensure_ascii=False),
            "changed_at": micros(unit.now),
        }
        mine = (table.c.id == ident, table.c.revision == revision, *self._own(who))
        if unit.tx.execute(update(table).where(*mine).values(**values)).rowcount != 1:
            check_revision(self.get(unit, who, ident), revision)
        count = select(func.count()).select_from(self._messages).where(self._messages.c.conversation == ident)
        if unit.tx.execute(count).scalar_one() + len(said) > MOST_MESSAGES:
            raise Refused(FULL, f"the conversation has {MOST_MESSAGES} messages: begin another one")
        more = {"conversation": ident, "revision": revision + 1, "written_at": micros(unit.now)}
        unit.tx.insert(self._messages, [{**each.to_json(), **more} for each in said])

    def finish(self, unit: Unit, answer: str, text: str, finished: str, reason: str = "") -> None:
        """Write the text and the end of an answer that is running; of another one, nothing is changed.

        One that was cancelled without a `reason` was stopped by its user.
        """
        table, said = self._conversations, self._messages
        state = (FAILED if reason else STOPPED) if finished == CANCELLED else WHOLE
        values = {"text": text, "state": state, "finished": finished, "reason": reason}
        mine = (said.c.answer == answer, said.c.state == RUNNING)
        if unit.tx.execute(update(said).where(*mine).values(**values)).rowcount:
            of = select(said.c.conversation).where(said.c.answer == answer)
            unit.tx.execute(update(table).where(table.c.id.in_(of)).values(revision=table.c.revision + 1)).close()

    def rename(self, unit: Unit, who: Principal, ident: str, title: str) -> Conversation:
        """Raises NotFound, InvalidField."""
        if not title.strip():
            raise InvalidField("title", seen=title, expected="a text")
        self.get(unit, who, ident)
        table = self._conversations
        unit.tx.execute(update(table).where(table.c.id == ident).values(title=titled(title))).close()
        return self.get(unit, who, ident)

    def delete(self, unit: Unit, who: Principal, ident: str) -> list[str]:
        """Delete a conversation and its messages; the names of its answers. Raises NotFound."""
        self.get(unit, who, ident)
        table, said = self._conversations, self._messages
        answers = [each.answer for each in self.messages(unit, ident) if each.answer]
        unit.tx.execute(delete(said).where(said.c.conversation == ident)).close()
        unit.tx.execute(delete(table).where(table.c.id == ident)).close()
        return answers

    def erase(self, unit: Unit, user: str) -> None:
        """Delete all conversations of a user."""
        table, said = self._conversations, self._messages
        own = select(table.c.id).where(table.c.user == user)
        unit.tx.execute(delete(said).where(said.c.conversation.in_(own))).close()
        unit.tx.execute(delete(table).where(table.c.user == user)).close()

    def _own(self, who: Principal) -> tuple[ColumnElement[bool], ...]:
        table = self._conversations
        return table.c.user == who.user, table.c.tenant == who.tenant


def check_revision(conversation: Conversation, seen: int) -> None:
    """Raises Refused unless the conversation is at the revision that was seen."""
    if conversation.revision != seen:
        raise Refused(
            CHANGED,
            f"the conversation was changed in another tab: it is at revision {conversation.revision}, not {seen}",
        )


def path_to(messages: Sequence[Message], leaf: str) -> list[Message]:
    """The messages from the first one to `leaf`. Raises InvalidField if there is no such message."""
    known, found = {each.id: each for each in messages}, list[Message]()
    while leaf:
        if leaf not in known:
            raise InvalidField("parent", seen=leaf, expected="a message of the conversation")
        found.append(known[leaf])
        leaf = known[leaf].parent
    return found[::-1]


def sendable(path: Sequence[Message]) -> list[Message]:
    """The messages of a path that a model may be given: those with a text, without the turns that a filter refused.

    The last message is the one that is answered, and is always among them.
    """
    refused = {each.id for each in path if each.finished == FILTERED}
    refused |= {each.parent for each in path if each.id in refused}
    return [each for each in path if each is path[-1] or (each.text and each.id not in refused)]


def unseen(path: Sequence[Message], unsent: int) -> int:
    """The number of messages of a path before the first one that is sent, if `unsent` of the sendable ones do not fit.

    Messages that a model is not given anyway count too, so it is the number of those that a reader sees there.
    """
    return path.index(sendable(path)[unsent]) if unsent else 0


def titled(text: str) -> str:
    """The title of a conversation that begins with a text."""
    words = " ".join(text.split())
    return words if len(words) <= MOST_TITLE else f"{words[: MOST_TITLE - 1]}…"


def _conversation(row: Row[Any]) -> Conversation:
    return Conversation(row.id, row.title, row.revision, json.loads(row.settings), _time(row.changed_at))


def _message(row: Row[Any]) -> Message:
    return Message(
        id=row.id,
        parent=row.parent,
        role=row.role,
        text=row.text,
        state=row.state,
        finished=row.finished,
        reason=row.reason,
        answer=row.answer,
        model=row.model,
        unsent=row.unsent,
        given=row.given,
        written_at=_time(row.written_at),
    )


def _time(value: int) -> str:
    return from_micros(value).isoformat()
