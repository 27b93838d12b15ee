"""Conversations in a real database: private, and changed by compare and set."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import MetaData

from tutti.backbone import SeededRandomness
from tutti.backbone.clock import ManualClock
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Method, Principal
from tutti.chassis.store.unit import Units
from tutti.chat.conversations import (
    ASSISTANT,
    FAILED,
    RUNNING,
    STOPPED,
    USER,
    WHOLE,
    Conversation,
    Conversations,
    Message,
    path_to,
    sendable,
    titled,
    unseen,
)
from tutti.chat.records import CANCELLED
from tutti.chat.saying import FILTERED


def person(name: str, tenant: str = "a") -> Principal:
    return Principal(f"users/{name}", frozenset({Role.ENGINEER}), f"tenants/{tenant}", Method.SESSION)


ADA = person("ada")
OTHERS = [person("bob"), person("ada", "b"), Principal.of_role(Role.OPERATOR), Principal.of_role(Role.SERVICE)]


class Rows:
    def __init__(self) -> None:
        metadata, clock = MetaData(), ManualClock()
        self.rows = Conversations(metadata)
        self.database = EmbeddedDatabase(None, clock=clock, inline=True)
        self.units = Units(self.database, "chat", metadata, clock=clock, randomness=SeededRandomness(1))
        self.database.create(metadata)

    def run(self, name: str, *arguments: Any, **more: Any) -> Any:
        """A method of the rows, in a unit of its own."""
        return self.units.run(lambda unit: getattr(self.rows, name)(unit, *arguments, **more))

    def said(self, ident: str, revision: int, *messages: Message, who: Principal = ADA) -> None:
        """Add messages; revision 0 begins the conversation."""

        def write(unit: Any) -> None:
            if revision == 0:
                self.rows.begin(unit, who, ident, messages[0].text)
            self.rows.add(unit, who, ident, revision, messages, {"model": "toy"})

        self.units.run(write)

    def get(self, ident: str) -> Conversation:
        found: Conversation = self.run("get", ADA, ident)
        return found


@pytest.fixture
def rows() -> Iterator[Rows]:
    made = Rows()
    yield made
    made.database.close()


def turn(name: str, parent: str = "", text: str = "Hello") -> tuple[Message, Message]:
    """A message and its answer, which runs."""
    said = Message(f"{name}-said", parent, USER, text)
    return said, Message(f"{name}-answer", said.id, ASSISTANT, "", RUNNING, answer=f"answers/{name}")


@pytest.mark.parametrize("other", OTHERS, ids=lambda each: f"{each.user} of {each.tenant}")
def test_a_conversation_exists_for_its_user_alone(rows: Rows, other: Principal) -> None:
    rows.said("c", 0, *turn("one"))
    for name, arguments in (("get", ()), ("rename", ("mine",)), ("delete", ())):
        with pytest.raises(NotFound):
            rows.run(name, other, "c", *arguments)
    with pytest.raises(NotFound):
        rows.run("add", other, "c", 1, turn("two", "one-answer"), {})
    assert rows.run("find_all", other) == []
    assert (rows.get("c").revision, len(rows.run("messages", "c"))) == (1, 2)


def test_an_answer_that_runs_is_finished_once(rows: Rows) -> None:
    for name, finished, reason, state in (
        ("whole", "stop", "", WHOLE),
        ("cut", "length", "", WHOLE),
        ("left", CANCELLED, "", STOPPED),
        ("lost", CANCELLED, "no replica", FAILED),
    ):
        rows.said(name, 0, *turn(name))
        rows.run("finish", f"answers/{name}", "text", finished, reason)
        rows.run("finish", f"answers/{name}", "another", "stop")
        answer = rows.run("messages", name)[-1]
        assert (answer.text, answer.state, answer.finished, answer.reason) == ("text", state, finished, reason)
        assert rows.get(name).revision == 2


def test_conversations_are_found_by_title_and_by_words_of_messages(rows: Rows) -> None:
    rows.said("a", 0, *turn("a", text="What is 100% wool?"))
    rows.said("b", 0, *turn("b", text="Count_to seven"))
    rows.run("finish", "answers/b", "A fox counts", "stop")
    rows.run("rename", ADA, "b", "Numbers")

    def found(words: str) -> list[str]:
        return sorted(each.id for each in rows.run("find_all", ADA, words))

    assert [found(each) for each in ("", "100%", "0%w", "FOX", "numbers", "t_to", "tto")] == [
        ["a", "b"],
        ["a"],
        [],
        ["b"],
        ["b"],
        ["b"],
        [],
    ]


def test_what_is_deleted_leaves_no_row(rows: Rows) -> None:
    rows.said("a", 0, *turn("a"))
    rows.said("b", 0, *turn("b"))
    assert rows.run("delete", ADA, "a") == ["answers/a"]
    rows.run("finish", "answers/a", "late", "stop")
    assert [rows.run("messages", each) for each in "ab"] == [[], rows.run("messages", "b")]
    with pytest.raises(NotFound):
        rows.get("a")


def test_all_conversations_of_an_erased_user_are_deleted_and_no_others(rows: Rows) -> None:
    for ident, who in (("a", ADA), ("b", person("ada", "b")), ("c", person("bob"))):
        rows.said(ident, 0, *turn(ident), who=who)
    rows.run("erase", ADA.user)
    rows.run("finish", "answers/a", "late", "stop")
    assert [len(rows.run("messages", each)) for each in "abc"] == [0, 0, 2]
    assert [len(rows.run("find_all", person(name))) for name in ("ada", "bob")] == [0, 1]


def test_titles_are_one_line_of_some_length(rows: Rows) -> None:
    assert titled(" a\n b ") == "a b"
    assert len(titled("word " * 100)) == 200
    rows.said("a", 0, *turn("a"))
    with pytest.raises(InvalidField):
        rows.run("rename", ADA, "a", " \n")


@given(st.lists(st.tuples(st.sampled_from(["stop", "length", FILTERED]), st.sampled_from(["", "text"])), max_size=6))
def test_a_model_is_given_no_turn_that_was_refused_and_always_the_last_message(answers: list[tuple[str, str]]) -> None:
    path, expected = list[Message](), list[str]()
    for number, (finished, text) in enumerate(answers):
        said, answer = turn(f"{number}", path[-1].id if path else "")
        path += [said, replace(answer, text=text, state=WHOLE, finished=finished)]
        if finished != FILTERED:
            expected += [said.id, answer.id] if text else [said.id]
    assert [each.id for each in sendable([*path, turn("last")[0]])] == [*expected, "last-said"]
    if path:
        again = sendable(path[:-1])  # the last message is answered once more
        assert again[-1] == path[-2]
    path += turn("last", path[-1].id if path else "")[:1]
    for unsent, first in enumerate(sendable(path)):
        assert unseen(path, unsent) == (path.index(first) if unsent else 0), "those that a reader sees before it"


STEPS = st.lists(st.tuples(st.sampled_from(["say", "branch", "finish", "look"]), st.integers(0, 1)), max_size=14)


@given(STEPS)
@settings(deadline=None, max_examples=100)
def test_two_tabs_lose_and_double_nothing(steps: list[tuple[str, int]]) -> None:
    """Each tab acts on what it saw last; a model knows which turns were accepted."""
    rows = Rows()
    try:
        rows.said("c", 0, *turn("0"))
        accepted, running, newest = ["0"], ["0"], 1
        seen = [(rows.get("c"), rows.run("messages", "c"))] * 2
        for number, (step, tab) in enumerate(steps, 1):
            conversation, messages = seen[tab]
            if step == "look":
                seen[tab] = rows.get("c"), rows.run("messages", "c")
            elif step == "finish" and running:
                rows.run("finish", f"answers/{running.pop()}", "text", "stop")
                newest += 1
            elif step in ("say", "branch"):
                parent = messages[-1].id if step == "say" else messages[0].parent
                if conversation.revision != newest:
                    with pytest.raises(Refused, match="another tab"):
                        rows.said("c", conversation.revision, *turn(f"{number}", parent))
                    continue
                rows.said("c", conversation.revision, *turn(f"{number}", parent))
                accepted.append(f"{number}")
                running.append(f"{number}")
                newest += 1
        stored = rows.run("messages", "c")
        assert rows.get("c").revision == newest
        assert [each.id for each in stored] == [f"{name}-{part}" for name in accepted for part in ("said", "answer")]
        assert sorted(each.answer for each in stored if each.state == RUNNING) == sorted(
            f"answers/{n}" for n in running
        )
        assert [path_to(stored, each.id)[-1] for each in stored] == stored
    finally:
        rows.database.close()
