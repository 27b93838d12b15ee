"""Conversations that contain a held-out prompt are found, by n-grams or, where it is short, by its words."""

from tutti.corpus.conversations.conversations import Conversation, Message, Role
from tutti.dedup.heldout import contaminated

LONG = "Please tell me in a few words why the sky over the sea is blue in the morning."


def said(*contents: str, system: str = "") -> Conversation:
    roles = (Role.USER, Role.ASSISTANT) * len(contents)
    messages = [Message(role, content) for role, content in zip(roles, contents, strict=False)]
    return Conversation((*([Message(Role.SYSTEM, system)] if system else []), *messages))


def test_n_grams_of_a_prompt_are_found_in_questions_and_answers() -> None:
    inside = said("What was asked?", f"They asked: {LONG.upper()}")
    earlier = said(LONG, "Because.", "And at night?", "It is dark.")
    other = said("Please tell me in a few words why grass is green.", "Because.")
    assert contaminated([inside, earlier, other], [said(LONG)]) == sorted([inside.digest, earlier.digest])


def test_a_short_prompt_is_found_by_its_words_alone() -> None:
    same, other = said("what is TWO and two", "Four."), said("What is two and three?", "What is two and two? Four.")
    assert contaminated([same, other], [said("What is two and two?")]) == [same.digest]


def test_a_system_message_that_all_have_contaminates_nothing() -> None:
    system = "You are a helpful assistant that answers each of the questions in a short and friendly way."
    assert contaminated([said("Why?", "So.", system=system)], [said("When?", system=system)]) == []


def test_nothing_is_held_out_by_nothing() -> None:
    assert contaminated([said("Why?", "So.")], []) == []
    assert contaminated([], [said(LONG)]) == []
