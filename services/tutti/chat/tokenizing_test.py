"""Texts as token ids."""

from dataclasses import replace

import pytest
from tests import talks

from tutti.chassis.connections import connection_of_loop
from tutti.chassis.errors import InvalidField, NotFound
from tutti.chat.models import Model
from tutti.chat.routing import Router
from tutti.chat.saying import Served
from tutti.chat.tokenizing import ids_of, model_for, read_texts
from tutti.corpus.conversations.template import CHAT_1
from tutti.corpus.tokens.tokenizer_test import of_others

SERVED = Served("", 64, talks.TOKENIZER, CHAT_1.bind(talks.TOKENIZER))
OTHERS = replace(SERVED, tokenizer=of_others())


def model(name: str, served: Served) -> Model:
    return Model(name, f"deployments/{name}", "checkpoints/a/0/1", 0, served, Router(connection_of_loop, ""), "")


def test_the_name_of_a_token_that_begins_or_ends_texts_is_that_token() -> None:
    tokenizer = OTHERS.tokenizer
    for token in (*tokenizer.opening, tokenizer.eos):
        name = tokenizer.spelling_of(token)
        assert [*ids_of(OTHERS, read_texts({"prompt": name, "add_special_tokens": False}))] == [token]
    text = f"{name} and text"
    assert [*ids_of(OTHERS, read_texts({"prompt": text}))] == [*tokenizer.opening, *tokenizer.encode(text)]


def test_models_with_one_tokenizer_need_no_name() -> None:
    """Clients such as lm-eval name none, whichever of the models they then ask."""
    long, short, other = model("long", SERVED), model("short", replace(SERVED, length=32)), model("other", OTHERS)
    assert model_for([long, short], "") is short
    assert model_for([long], "", by_template=True) is long
    assert model_for([long, short, other], "other") is other
    with pytest.raises(InvalidField, match="long, short"):
        model_for([long, short], "", by_template=True)
    with pytest.raises(InvalidField, match="long, other"):
        model_for([long, other], "")
    with pytest.raises(NotFound):
        model_for([], "")
