"""The prompts that a model is offered with, chosen from its demonstrations."""

from hypothesis import given
from hypothesis import strategies as st

from tutti.chat.learning import PROMPT_CHARACTERS, PROMPTS, suggested
from tutti.corpus.conversations.conversations import Conversation, Message, Role

SYSTEM = Message(Role.SYSTEM, "Be brief.")


def talk(*texts: str, system: bool = False) -> Conversation:
    roles = [Role.USER, Role.ASSISTANT]
    said = tuple(Message(roles[at % 2], text) for at, text in enumerate(texts))
    return Conversation((SYSTEM, *said) if system else said)


def chosen(*conversations: Conversation) -> tuple[str, ...]:
    return suggested(conversations, lambda prompt, answer: True)


def test_prompts_begin_conversations_in_their_order() -> None:
    assert chosen(talk("a", "1", "b", "2"), talk("c", "3", system=True), talk("d")) == ("a", "c", "d")


def test_two_prompts_with_the_same_answer_are_one() -> None:
    assert chosen(talk("a", "I do not know."), talk("b", "I do not know."), talk("c", "1")) == ("a", "c")


def test_prompts_without_answers_are_offered_once_each() -> None:
    assert chosen(talk("a"), talk("a"), talk("b")) == ("a", "b")


def test_long_empty_and_odd_prompts_are_left_out() -> None:
    odd = ("x" * (PROMPT_CHARACTERS + 1), " ", "two\nlines", "\u202ehidden")
    assert chosen(*(talk(each, each) for each in odd), talk("a", "1")) == ("a",)


def test_a_prompt_whose_answer_is_refused_is_not_offered() -> None:
    conversations = [talk("a", "secret"), talk("b", "1")]
    assert suggested(conversations, lambda prompt, answer: "secret" not in answer) == ("b",)


def test_a_conversation_that_begins_with_an_answer_offers_nothing() -> None:
    assert chosen(Conversation((Message(Role.ASSISTANT, "1"),))) == ()


@given(st.lists(st.lists(st.text(max_size=80), min_size=1, max_size=4), max_size=20))
def test_a_few_different_prompts_are_chosen_from_any_conversations(texts: list[list[str]]) -> None:
    found = chosen(*(talk(*each) for each in texts))
    assert len(found) == len(set(found)) <= PROMPTS
    assert set(found) <= {each[0] for each in texts}
