"""The prompts that a model is offered with, chosen from its demonstrations."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.chat.learning import PROMPT_CHARACTERS, PROMPTS, Turn, beginnings_of, frequent, standalone, suggested
from tutti.corpus.conversations.conversations import Conversation, Message, Role

SYSTEM = Message(Role.SYSTEM, "Be brief.")


def talk(*texts: str, system: bool = False) -> Conversation:
    roles = [Role.USER, Role.ASSISTANT]
    said = tuple(Message(roles[at % 2], text) for at, text in enumerate(texts))
    return Conversation((SYSTEM, *said) if system else said)


def chosen(*conversations: Conversation, refused: str = "-") -> tuple[str, ...]:
    """The prompts that are offered, without those whose answers contain `refused`."""
    common = frequent(beginnings_of(conversations)).answer
    return suggested(standalone(conversations), common, lambda prompt, answer: refused not in answer)


def test_prompts_that_share_no_word_are_in_the_order_of_their_conversations() -> None:
    assert chosen(talk("a", "1", "b", "2"), talk("c", "3", system=True), talk("d")) == ("a", "c", "d")


def test_two_prompts_with_the_same_answer_are_one() -> None:
    talks = (talk("a", "1"), talk("b", "1"), talk("c", "2"), talk("d", "2"), talk("e", "2"))
    assert chosen(*talks) == ("a", "c")


def test_prompts_with_the_most_frequent_answer_come_last() -> None:
    refused = [talk(f"foreign {number}", "I do not know.") for number in range(9)]
    assert chosen(*refused, talk("a", "1"), talk("b", "2")) == ("a", "b", "foreign 0")


def test_prompts_of_one_kind_leave_room_for_others() -> None:
    sums = [talk(f"what is {number} plus 1?", f"{number + 1}.") for number in range(50)]
    others = [
        talk("how does a cat sound?", "Meow."),
        talk("spell dog please", "d o g"),
        talk("count to three", "1 2 3"),
    ]
    assert chosen(*sums, *others) == ("what is 0 plus 1?", *(each.messages[0].content for each in others))


def test_a_greeting_comes_after_prompts_that_say_more_and_before_refusals() -> None:
    refused = [talk(f"what is {number} to you?", "I do not know.") for number in range(2)]
    assert chosen(*refused, talk("Hi", "Hello!"), talk("count to three", "1 2 3"))[:2] == ("count to three", "Hi")


def test_of_prompts_that_are_equally_different_the_one_with_the_most_different_answer_is_chosen() -> None:
    talks = (talk("a", "It is red."), talk("b", "It is blue."), talk("c", "Meow!"))
    assert chosen(*talks) == ("a", "c", "b")


def test_a_prompt_with_the_same_words_is_the_same() -> None:
    assert chosen(talk("Hello", "1"), talk("hello!", "2"), talk("bye", "3")) == ("Hello", "bye")


def test_a_prompt_that_needs_a_turn_before_it_is_not_offered() -> None:
    talks = [talk(f"question {number}", f"{number}", "Say that again", f"{number}") for number in range(9)]
    others = [talk("say that again!", "Ask me something first."), talk("question 3", "3")]
    assert "say that again!" not in chosen(*others, *talks)
    assert "say that again!" in chosen(*others), "nothing shows that it needs one"


def test_a_prompt_that_begins_conversations_and_continues_others_is_offered() -> None:
    talks = (talk("a", "1", "b", "2"), talk("b", "2", "a", "1"))
    assert chosen(*talks) == ("a", "b")


@settings(max_examples=30)
@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5), min_size=1, max_size=12))
def test_a_conversation_with_a_first_turn_leaves_prompts_that_stand_alone(texts: list[list[str]]) -> None:
    conversations = [talk(*each) for each in texts]
    assert standalone(conversations)
    assert {*standalone(conversations)} <= {*beginnings_of(conversations)}


def test_prompts_without_answers_are_offered_once_each() -> None:
    assert chosen(talk("a"), talk("a"), talk("b")) == ("a", "b")


def test_long_empty_and_odd_prompts_are_left_out() -> None:
    odd = ("x" * (PROMPT_CHARACTERS + 1), " ", "two\nlines", "\u202ehidden")
    assert chosen(*(talk(each, each) for each in odd), talk("a", "1")) == ("a",)


def test_a_prompt_whose_answer_is_refused_is_not_offered() -> None:
    conversations = [talk("a", "secret"), talk("b", "1")]
    assert chosen(*conversations, refused="secret") == ("b",)


def test_a_conversation_that_begins_with_an_answer_offers_nothing() -> None:
    assert chosen(Conversation((Message(Role.ASSISTANT, "1"),))) == ()


@given(st.lists(st.lists(st.text(max_size=80), min_size=1, max_size=4), max_size=20))
def test_a_few_different_prompts_are_chosen_from_any_conversations(texts: list[list[str]]) -> None:
    found = chosen(*(talk(*each) for each in texts))
    assert len(found) == len(set(found)) <= PROMPTS
    assert set(found) <= {each[0] for each in texts}


@given(st.lists(st.tuples(st.text("ab ", max_size=5), st.sampled_from(["", "x", "y", "x y", "z"])), max_size=30))
def test_no_prompt_is_chosen_beside_one_like_it_and_refusals_only_where_nothing_else_is_left(
    turns: list[tuple[str, str]],
) -> None:
    begun = [Turn(*each) for each in turns]
    found = suggested(begun, frequent(begun).answer, lambda prompt, answer: True)
    words = [frozenset(each.split()) for each in found]
    assert len({*words}) == len(words)
    common = frequent(begun).answer
    if common:
        asked = {prompt for prompt, answer in begun if answer == common}
        others = {prompt for prompt, answer in begun if answer != common}
        assert all(
            each in asked for each in found[next((at for at, each in enumerate(found) if each not in others), 9) :]
        )


@given(st.lists(st.builds(Turn, st.text(max_size=3), st.sampled_from(["", "x", "y", "z"]))))
def test_the_most_frequent_answer_is_one_that_no_other_exceeds(begun: list[Turn]) -> None:
    found, answers = frequent(begun), [each.answer for each in begun if each.answer]
    assert all(answers.count(each) <= max(1, answers.count(found.answer)) for each in answers)
    assert found.share == (answers.count(found.answer) / len(begun) if found.answer else 0)
