"""The routes that turn texts into token ids and back, in the form that clients of vLLM call."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.auth import Role
from tutti.chat.answering import rendered
from tutti.chat.bodies import named
from tutti.chat.fields import DETOKENIZE, TOKENIZE, values_of
from tutti.chat.models import Model, called
from tutti.chat.openapi import document
from tutti.chat.saying import Served
from tutti.corpus.conversations.conversations import Message
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.web.pages import Api, Ask, Reply


@dataclass(frozen=True)
class Texts:
    """A request for token ids: those of `prompt`, or of `messages`."""

    model: str
    prompt: str | None
    messages: tuple[Message, ...]
    with_opening: bool
    with_texts: bool


@dataclass(frozen=True)
class Ids:
    """A request for the text of token ids."""

    model: str
    ids: tuple[int, ...]


def read_texts(body: object) -> Texts:
    """Raises InvalidField."""
    given = values_of(TOKENIZE, body)
    if (given["prompt"] is None) == (not given["messages"]):
        raise InvalidField("prompt", seen=given["prompt"], expected="either prompt or messages")
    return Texts(
        given["model"], given["prompt"], given["messages"], given["add_special_tokens"], given["return_token_strs"]
    )


def read_ids(body: object) -> Ids:
    """Raises InvalidField."""
    given = values_of(DETOKENIZE, body)
    return Ids(given["model"], given["tokens"])


class Tokenizing:
    """`models` returns those that serve now."""

    def __init__(self, models: Callable[[], Sequence[Model]]) -> None:
        self._models = models

    def routes(self, roles: frozenset[Role]) -> list[Api]:
        return [
            Api("/tokenize", self._tokenize, roles, "POST", read=read_texts),
            Api("/detokenize", self._detokenize, roles, "POST", read=read_ids),
            Api("/tokenizer_info", self._info, roles),
            Api("/openapi.json", self._describe, roles),
        ]

    async def _tokenize(self, ask: Ask) -> Reply:
        texts = ask.body
        model = model_for(self._models(), texts.model, by_template=bool(texts.messages))
        ids = await asyncio.to_thread(partial(ids_of, model.served, texts))  # a template of others runs in a process
        tokenizer = model.served.tokenizer
        strings = [_string(tokenizer, each) for each in ids] if texts.with_texts else None
        return Reply(
            {"count": len(ids), "max_model_len": model.served.length, "tokens": list(ids), "token_strs": strings}
        )

    async def _detokenize(self, ask: Ask) -> Reply:
        tokenizer = model_for(self._models(), ask.body.model).served.tokenizer
        if wrong := [each for each in ask.body.ids if each >= tokenizer.vocabulary]:
            raise InvalidField("tokens", seen=wrong[0], expected=f"ids below {tokenizer.vocabulary}")
        return Reply({"prompt": await asyncio.to_thread(tokenizer.decode, ask.body.ids)})

    async def _info(self, ask: Ask) -> Reply:
        model = model_for(self._models(), ask.query.get("model", ""))
        tokenizer = model.served.tokenizer
        opening = tokenizer.opening
        return Reply(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "tokenizer_version": tokenizer.version,
                "vocab_size": tokenizer.vocabulary,
                "model_max_length": model.served.length,
                "eos_token": named(tokenizer, tokenizer.eos),
                "bos_token": named(tokenizer, opening[0]) if opening else None,
                "pad_token": None,
                "chat_template": None,
            }
        )

    async def _describe(self, ask: Ask) -> Reply:
        return Reply(document(sorted(each.name for each in self._models())))


def model_for(models: Sequence[Model], name: str, *, by_template: bool = False) -> Model:
    """The model of this name; without a name, the one with the shortest context.

    Without a name, all must have one tokenizer, and with `by_template`, there must be only one. Raises NotFound,
    InvalidField.
    """
    if name or not models:
        return called(models, name)
    if len(models) > 1 and (by_template or len({each.served.tokenizer.version for each in models}) > 1):
        names = ", ".join(sorted(each.name for each in models))
        raise InvalidField("model", seen="none", expected=f"one of {names}, since several serve")
    return min(models, key=lambda each: (each.served.length, each.name))


def ids_of(served: Served, texts: Texts) -> Sequence[int]:
    """The token ids of a request; a prompt that is the name of the token that ends or begins a text is that token."""
    tokenizer = served.tokenizer
    if texts.prompt is None:
        return rendered(served, texts.messages)
    special = {named(tokenizer, each): each for each in (*tokenizer.opening[:1], tokenizer.eos)}
    if texts.prompt and texts.prompt in special:
        return (special[texts.prompt],)
    return (*(tokenizer.opening if texts.with_opening else ()), *tokenizer.encode(texts.prompt).tolist())


def _string(tokenizer: BytePairTokenizer, token: int) -> str:
    return tokenizer.spelled[token].decode(errors="replace") or named(tokenizer, token)
