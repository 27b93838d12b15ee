"""Turns of conversations: the message of a person, and the answer, which continues without a reader.

Promises: a turn is stored as a whole or not at all, before its answer begins; the server alone writes history; an
answer has the same journal and record as one that a program asks for, and its end is stored with the record; an answer
that ended with its process is shown as failed, with the text that was journaled.
"""

import re
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tutti.chassis.errors import InvalidField, NotFound, Refused, Unavailable, declare
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc import eventloop
from tutti.chassis.store.unit import Unit, Units
from tutti.chat.answers import Answers
from tutti.chat.beginnings import Beginnings, Group
from tutti.chat.conversations import (
    ANSWERING,
    ASSISTANT,
    MOST_BYTES,
    RUNNING,
    USER,
    Conversation,
    Message,
    check_revision,
    path_to,
    sendable,
    unseen,
)
from tutti.chat.filter.release import Release
from tutti.chat.fitting import Fitting, fitting, typed
from tutti.chat.kinds import is_utf8
from tutti.chat.leases import RESERVE_SECONDS
from tutti.chat.live import Live
from tutti.chat.models import Model, called
from tutti.chat.records import CANCELLED
from tutti.chat.requests import read
from tutti.chat.tables import Tables
from tutti.chat.visible import Visible
from tutti.corpus.conversations.conversations import Message as Said
from tutti.corpus.conversations.conversations import Role

MOST_LIVE = 4
TOO_MANY, LOST = "TOO_MANY_ANSWERS", "the platform ended while it was answering: ask again"
LEASE_SECONDS = RESERVE_SECONDS + 1.0
END_SECONDS = 5.0
"""A conversation is deleted once its answer was stopped, which takes a moment."""
SETTINGS = ("model", "system", "temperature", "top_p", "max_tokens")
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
declare({TOO_MANY: f"{MOST_LIVE} answers of the user are being made, the most at once; wait, or stop one"})


@dataclass(frozen=True)
class Turn:
    """A message as a page sends it: a text behind `parent`, or none for another answer to the message `parent`.

    `revision` is the one that the page has seen; 0 begins a conversation, with the id that the page chose. `settings`
    have the fields SETTINGS, of which only the model is needed.
    """

    conversation: str
    revision: int
    parent: str
    text: str | None
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Branch:
    """An answer that is `answer` before its token number `at`, has the id `token` there, and continues from it.

    `revision` is that of the conversation that the page has seen.
    """

    conversation: str
    answer: str
    revision: int
    at: int
    token: int


@dataclass(frozen=True)
class Count:
    """The `tokens` of all that a turn sends, of which the person `typed` some, and the `length` of the model's context;
    `unsent` of the oldest messages do not fit, because `answer` tokens are kept free for the answer.
    """

    tokens: int
    typed: int
    length: int
    unsent: int
    answer: int


@dataclass(frozen=True)
class Shown:
    """A conversation with all of its messages."""

    conversation: Conversation
    messages: Sequence[Message]


class Turns:
    """`models` returns those that serve now; `name` a new id."""

    def __init__(
        self,
        units: Units,
        tables: Tables,
        models: Callable[[], Sequence[Model]],
        beginnings: Beginnings,
        answers: Answers,
        *,
        name: Callable[[], str],
    ) -> None:
        self._units, self._tables, self._models = units, tables, models
        self._beginnings, self._answers = beginnings, answers
        self._rows, self._name = tables.conversations, name
        self._live: dict[str, Live] = {}
        self._lock = threading.Lock()

    def shown(self, who: Principal, ident: str) -> Shown:
        """Raises NotFound."""
        return self._units.run(lambda unit: self._shown(unit, who, ident))

    def count(self, who: Principal, turn: Turn) -> Count:
        """The tokens that a turn would send.

        Raises InvalidField, NotFound, Unavailable.
        """
        model = self._model(turn)
        path = self._units.run(lambda unit: self._path(unit, who, turn))
        fits = self._fitting(model, path, turn)
        unsent = unseen(path, fits.unsent)
        return Count(fits.tokens, typed(model.served.renderer, fits), model.served.length, unsent, fits.answer)

    def say(self, who: Principal, turn: Turn) -> Shown:
        """Store a turn and begin its answer. Raises InvalidField, NotFound, Refused, TooMany, Unavailable."""
        if turn.text is not None and not turn.text.strip():
            raise InvalidField("text", seen=turn.text, expected="a text")
        model = self._model(turn)
        path = self._units.run(lambda unit: self._path(unit, who, turn, unfinished=False))
        fits = self._fitting(model, path, turn)
        body = {"messages": [each.to_json() for each in fits.messages], "stream": True}
        options = {key: turn.settings.get(key) for key in ("temperature", "top_p", "max_tokens")}
        request = read({**body, **options, "model": model.name})
        group = self._beginnings.grouped(who, model, request)
        said = path[-1]
        answer = self._answer(group, said.id, unseen(path, fits.unsent))

        def write(unit: Unit) -> None:
            if turn.revision == 0:
                self._rows.begin(unit, who, turn.conversation, said.text)
            added = [answer] if turn.text is None else [said, answer]
            settings = {key: turn.settings[key] for key in SETTINGS if turn.settings.get(key) is not None}
            self._rows.add(unit, who, turn.conversation, turn.revision, added, settings)

        return self._begin(who, turn.conversation, group, write)

    def branch(self, who: Principal, branch: Branch) -> Shown:
        """Begin an answer beside another one, which it continues from a token on with another one.

        Raises InvalidField, NotFound, Refused, TooMany, Unavailable.
        """
        found = self.shown(who, branch.conversation)
        before = next((each for each in found.messages if branch.answer and each.answer == branch.answer), None)
        if before is None:
            raise InvalidField("answer", seen=branch.answer, expected="an answer of the conversation")
        _check_ended(found, branch.revision)
        model, request = self._answers.continued(branch.answer, who, branch.at, branch.token)
        group = self._beginnings.grouped(who, model, request)
        answer = self._answer(group, before.parent, before.unsent, given=branch.at + 1)

        def write(unit: Unit) -> None:
            settings = found.conversation.settings
            self._rows.add(unit, who, branch.conversation, branch.revision, [answer], settings)

        return self._begin(who, branch.conversation, group, write)

    def _answer(self, group: Group, parent: str, unsent: int, *, given: int = 0) -> Message:
        """The message of an answer that begins."""
        [name], model = group.names, group.model.name
        begun = Message(*(self._name(), parent, ASSISTANT, "", RUNNING), answer=name, model=model)
        return replace(begun, unsent=unsent, given=given)

    def _begin(self, who: Principal, conversation: str, group: Group, store: Callable[[Unit], None]) -> Shown:
        """Reserve an answer, `store` its messages with its beginning, and begin it."""
        [name] = group.names
        live = self._enter(who, name)

        def write(unit: Unit) -> None:
            store(unit)
            self._tables.generations.begin(unit, [each.begun for each in group.choices])

        try:
            lease = eventloop.run(self._beginnings.reserve(who, group), LEASE_SECONDS)
            try:
                self._units.run(write)
            except BaseException:
                self._beginnings.release(group, lease)
                raise
        except BaseException:
            self._leave(live)
            raise
        live.begin(lambda show: self._beginnings.make(group, lease, show))
        return self.shown(who, conversation)

    def stop(self, who: Principal, answer: str) -> None:
        """End an answer with the text that it has; one that has ended stays as it is. Raises NotFound."""
        live = self._live.get(answer)
        if live is not None and live.is_of(who):
            live.stop()
            return
        self._units.run(lambda unit: self._tables.answers.get_for(unit, answer, who))

    def delete(self, who: Principal, ident: str) -> None:
        """Delete a conversation, and what was journaled of its answers. Raises NotFound, Refused."""
        for each in self.shown(who, ident).messages:
            live = self._live.get(each.answer)
            if each.state == RUNNING and live is not None:
                live.stop()
                if not live.ended.wait(END_SECONDS):
                    raise Refused(ANSWERING, "the answer did not end in time: delete the conversation again")

        def delete(unit: Unit) -> None:
            answers = self._rows.delete(unit, who, ident)
            self._tables.generations.erase(unit, answers)

        self._units.run(delete)

    def follow(self, who: Principal, answer: str, after: int) -> AsyncGenerator[tuple[int, str], None]:
        """The pieces of an answer from number `after` on; none if it is not being made, or is another user's."""
        live = self._live.get(answer)
        return live.read(after) if live is not None and live.is_of(who) else _nothing()

    def _model(self, turn: Turn) -> Model:
        """The model of a turn. Raises InvalidField, Unavailable."""
        name = _text(turn.settings, "model")
        try:
            return called(self._models(), name)
        except NotFound:
            raise Unavailable(
                f"the model {name!r} does not serve now: try again later, or choose another one", reason="NO_REPLICA"
            ) from None

    def _path(self, unit: Unit, who: Principal, turn: Turn, *, unfinished: bool = True) -> list[Message]:
        """The messages that a turn answers, its own included. With `unfinished`, it need not be sent now."""
        said = [] if turn.text is None else [Message(self._name(), turn.parent, USER, _checked(turn.text))]
        if turn.revision == 0:
            if turn.parent or not said:
                raise InvalidField("parent", seen=turn.parent, expected="nothing, and a text: the conversation begins")
            return said
        found = self._shown(unit, who, turn.conversation)
        if not unfinished:
            _check_ended(found, turn.revision)
        path = [*path_to(found.messages, turn.parent), *said]
        if not path or path[-1].role != USER:
            raise InvalidField("parent", seen=turn.parent, expected="a message of the user, which is answered again")
        return path

    def _fitting(self, model: Model, path: Sequence[Message], turn: Turn) -> Fitting:
        system, tokens = turn.settings.get("system") or "", turn.settings.get("max_tokens")
        if not isinstance(system, str):
            raise InvalidField("system", seen=system, expected="a text")
        if isinstance(tokens, bool) or not isinstance(tokens, int | None):
            raise InvalidField("max_tokens", seen=tokens, expected="a whole number")
        said = [Said(Role(each.role), each.text) for each in sendable(path)]
        answer = max(0, tokens or 0)
        return fitting(model.served.renderer, model.served.length, said, system=_checked(system), answer=answer)

    def _shown(self, unit: Unit, who: Principal, ident: str) -> Shown:
        """A conversation; answers that run nowhere any more are stored as failed."""
        conversation = self._rows.get(unit, who, ident)
        messages = self._rows.messages(unit, ident)
        lost = [each for each in messages if each.state == RUNNING and not self._is_made(each.answer)]
        for each in lost:
            self._rows.finish(unit, each.answer, self._journaled(unit, each), CANCELLED, LOST)
        if not lost:
            return Shown(conversation, messages)
        return Shown(self._rows.get(unit, who, ident), self._rows.messages(unit, ident))

    def _journaled(self, unit: Unit, message: Message) -> str:
        """The text of the token ids that were journaled, as far as the filter has judged it; empty where no deployment
        of the model serves.
        """
        found = self._tables.generations.find(unit, message.answer)
        model = next((each for each in self._models() if each.name == message.model), None)
        if found is None or model is None:
            return ""
        visible = Visible(model.served.tokenizer.spelled, found.request.stops)
        release = Release(model.served.filter.answer)
        return "".join(release.push(visible.push(token)) for token in found.ids)

    def _is_made(self, answer: str) -> bool:
        live = self._live.get(answer)
        return live is not None and not live.ended.is_set()

    def _enter(self, who: Principal, answer: str) -> Live:
        """A place for an answer. Raises Refused if the user has too many."""
        with self._lock:
            for each in [each for each in self._live.values() if each.ended.is_set()]:
                del self._live[each.answer]
            if sum(each.is_of(who) for each in self._live.values()) >= MOST_LIVE:
                raise Refused(TOO_MANY, f"{MOST_LIVE} of your answers are being made: wait, or stop one")
            live = self._live[answer] = Live(who, answer)
            return live

    def _leave(self, live: Live) -> None:
        with self._lock:
            self._live.pop(live.answer, None)


async def _nothing() -> AsyncGenerator[tuple[int, str], None]:
    return
    yield


def _check_ended(found: Shown, revision: int) -> None:
    """Raises Refused for a conversation that was changed, or in which an answer is made."""
    check_revision(found.conversation, revision)
    if any(each.state == RUNNING for each in found.messages):
        raise Refused(ANSWERING, "an answer of this conversation has not ended: wait for it, or stop it")


def branch_of(body: Mapping[str, Any]) -> Branch:
    """The branch in the body of a call. Raises InvalidField."""
    for key in ("conversation", "answer"):
        if not isinstance(body.get(key), str):
            raise InvalidField(key, seen=body.get(key), expected="a name")
    for key in ("revision", "at", "token"):
        if type(body.get(key)) is not int:
            raise InvalidField(key, seen=body.get(key), expected="a whole number")
    return Branch(**body)


def turn_of(body: Mapping[str, Any]) -> Turn:
    """The turn in the body of a call. Raises InvalidField."""
    revision, text, settings = body.get("revision", 0), body.get("text"), body.get("settings")
    if type(revision) is not int:
        raise InvalidField("revision", seen=revision, expected="a whole number")
    if text is not None and not isinstance(text, str):
        raise InvalidField("text", seen=text, expected="a text")
    if not isinstance(settings, Mapping) or settings.keys() - set(SETTINGS):
        raise InvalidField("settings", seen=settings, expected=f"an object of {', '.join(SETTINGS)}")
    names = [body.get(key, "") for key in ("conversation", "parent")]
    for key, value in zip(("conversation", "parent"), names, strict=True):
        if not isinstance(value, str):
            raise InvalidField(key, seen=value, expected="an id")
    if not ID.fullmatch(names[0]):
        raise InvalidField("conversation", seen=names[0], expected="a UUID")
    return Turn(names[0], revision, names[1], text, settings)


def _text(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidField(name, seen=value, expected="a text")
    return value


def _checked(text: str) -> str:
    """Raises InvalidField for a text that cannot be stored."""
    if not is_utf8(text):
        raise InvalidField("text", seen="half a character", expected="whole characters")
    if (size := len(text.encode())) > MOST_BYTES:
        raise InvalidField("text", seen=f"{size} bytes", expected=f"at most {MOST_BYTES}")
    return text.replace("\0", "\ufffd")
