"""Which turns of a conversation are sent: the newest that fit, and always the last one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import talks

from tutti.chassis.errors import InvalidField
from tutti.chat.fitting import SHARE, fitting, typed
from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.template import CHAT_1

RENDERER = CHAT_1.bind(talks.TOKENIZER)
TEXTS = st.text("ab ", min_size=1, max_size=30)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Turns of both, the last one of the user; an answer can be missing."""
    turns = list[Message]()
    for _ in range(draw(st.integers(0, 8))):
        turns.append(Message(Role.USER, draw(TEXTS)))
        turns += [Message(Role.ASSISTANT, draw(TEXTS))] * draw(st.integers(0, 1))
    return [*turns, Message(Role.USER, draw(TEXTS))]


def size(messages: list[Message]) -> int:
    return len(RENDERER.open(messages))


@given(conversations(), st.integers(40, 200), st.sampled_from(["", "be brief"]), st.integers(0, 60))
@settings(deadline=None, max_examples=60)
def test_the_most_turns_that_leave_room_are_sent(turns: list[Message], length: int, system: str, answer: int) -> None:
    head = [Message(Role.SYSTEM, system)] if system else []
    room = length - min(answer or length, length // SHARE)
    begins = [at for at, each in enumerate(turns) if each.role is Role.USER]
    expected = next((at for at in begins if size([*head, *turns[at:]]) <= room), len(turns) - 1)
    sent = [*head, *turns[expected:]]
    if size(sent) >= length:
        with pytest.raises(InvalidField):
            fitting(RENDERER, length, turns, system=system, answer=answer)
        return
    found = fitting(RENDERER, length, turns, system=system, answer=answer)
    assert (list(found.messages), found.unsent, found.tokens) == (sent, expected, size(sent))
    assert found.answer == min(length - room, length - size(sent))
    assert typed(RENDERER, found) == len(talks.TOKENIZER.encode(turns[-1].content))
