"""The chat template: what each message becomes, whose each token is, and what no text can do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.rendered import TemplateError
from tutti.corpus.conversations.template import CHAT_1, TEMPLATES, of_digest
from tutti.tokenization.bpe import train_bpe

TOKENIZER = train_bpe(["one two three", "<|user|><|assistant|>", "two one"], vocabulary=300, reserved=CHAT_1.tokens)
CHAT = CHAT_1.bind(TOKENIZER)
TALK = (Message(Role.SYSTEM, "one"), Message(Role.USER, "two"), Message(Role.ASSISTANT, "three"))


def ids(*parts: str | int) -> list[int]:
    """Role tokens by their spelling, the end as an id, and texts encoded."""
    found: list[int] = []
    for part in parts:
        if isinstance(part, int):
            found.append(part)
        else:
            found += [TOKENIZER.reserved[part]] if part in TOKENIZER.reserved else TOKENIZER.encode(part).tolist()
    return found


def test_a_turn_is_its_role_token_and_its_text_and_only_an_answer_ends_with_the_end_of_text() -> None:
    found = CHAT.render(TALK)
    assert found.ids.tolist() == ids("<|system|>", "one", "<|user|>", "two", "<|assistant|>", "three", TOKENIZER.eos)


def test_what_an_assistant_wrote_is_its_text_and_its_end_and_not_its_role_token() -> None:
    found = CHAT.render((*TALK, Message(Role.USER, "one"), Message(Role.ASSISTANT, "two")))
    answers = found.ids[found.answer].tolist()
    assert answers == ids("three", TOKENIZER.eos, "two", TOKENIZER.eos)


def test_an_open_turn_is_where_a_rendered_answer_begins() -> None:
    opened, whole = CHAT.open(TALK[:2]), CHAT.render(TALK)
    assert whole.ids[: len(opened)].tolist() == opened.tolist()
    assert not whole.answer[: len(opened)].any()
    assert whole.answer[len(opened) :].all()
    for answered in (TALK, ()):
        with pytest.raises(TemplateError, match="a prompt whose last message is"):
            CHAT.open(answered)


SPELLED = st.lists(st.sampled_from([*CHAT_1.tokens, "<|endoftext|>", "a "])).map("".join)


@given(text=st.one_of(st.text(max_size=60), SPELLED))
def test_no_text_opens_or_ends_a_turn(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    found = CHAT.render((Message(Role.USER, text), Message(Role.ASSISTANT, text)))
    special = found.ids[found.ids >= min(TOKENIZER.reserved.values())]
    assert special.tolist() == ids("<|user|>", "<|assistant|>", TOKENIZER.eos)


def test_a_tokenizer_without_the_role_tokens_is_refused_with_the_remedy() -> None:
    with pytest.raises(TemplateError, match=r"does not reserve <\|system\|>, .*set `template` in the recipe"):
        CHAT_1.bind(train_bpe(["one"], vocabulary=260))


def test_a_template_keeps_its_digest() -> None:
    assert {name: each.digest for name, each in TEMPLATES.items()} == {
        "chat@1": "blake3:d945b72f4c489e165b2a8a9415f8f985160703a02e7c1754858001124fb3be3c",
    }
    assert of_digest(CHAT_1.digest) is CHAT_1
    with pytest.raises(TemplateError, match=r"this version has chat@1"):
        of_digest("blake3:" + "0" * 64)
