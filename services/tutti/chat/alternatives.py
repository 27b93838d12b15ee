"""The tokens of an answer that has ended, and those that its model could have written in their places.

Promises: only tokens that are wholly shown are here, and no alternative that the filter would withhold; of an answer
that the filter ended there are none. Probabilities are those of the model at temperature 1, computed by a replica after
the tokens that were journaled.
"""

from contextlib import aclosing
from dataclasses import dataclass, replace

from tutti.chassis.errors import InvalidField
from tutti.chat.answering import joined
from tutti.chat.generations import Generation
from tutti.chat.replaying import replayed
from tutti.chat.requests import ChatRequest
from tutti.chat.routing import Router
from tutti.chat.saying import FILTERED, Served, is_withheld
from tutti.chat.visible import Visible
from tutti.inference.engine import Chosen

MOST = 8
"""The likeliest tokens that are shown for a place."""


@dataclass(frozen=True)
class Token:
    """`text` is the part of the answer that it shows; where that is empty, `name` says what it is."""

    id: int
    text: str
    name: str = ""


@dataclass(frozen=True)
class Alternative:
    """A token that the model could write in a place, with its log-probability in nats."""

    token: Token
    logprob: float


@dataclass(frozen=True)
class Place:
    """A place of an answer: its token, the likeliest ones, the likeliest first, and how many of those are withheld."""

    chosen: Alternative
    likeliest: tuple[Alternative, ...]
    withheld: int


def tokens_of(served: Served, generation: Generation, finished: str) -> list[Token]:
    """The tokens of an answer that are wholly shown, in their order.

    There are none of an answer that was withheld in part: those beside its last ones would say what was withheld.
    """
    if finished == FILTERED:
        return []
    replay = replayed(served, Generation(replace(generation.request, alternatives=0), generation.ids), finished)
    count = sum(len(piece.scores) for piece in replay.pieces)
    visible = Visible(served.tokenizer.spelled)
    return [_token(served, token, visible.push(token)) for token in generation.ids[:count]]


async def place_of(served: Served, generation: Generation, router: Router, at: int, *, id: str, salt: str) -> Place:
    """The place `at` of an answer, which is below the number of its tokens. Raises what `Answer.events` raises."""
    join = joined(served, replace(generation.request, given=()), id=id, seed=0, salt=salt)
    ids = tuple(generation.ids)
    scored = replace(
        join,
        given=ids[:at],
        forced=ids[: at + 1],
        limits=replace(join.limits, tokens=at + 1),
        alternatives=min(MOST, served.tokenizer.vocabulary),
    )
    async with aclosing(router.answer(scored, model=served.model).events()) as events:
        async for event in events:
            if isinstance(event, Chosen):
                found = [each for each in event.alternatives if not is_withheld(served, each[0])]
                return Place(
                    Alternative(named(served, event.token), event.logprob),
                    tuple(Alternative(named(served, token), logprob) for token, logprob in found),
                    len(event.alternatives) - len(found),
                )
    raise InvalidField("at", seen=at, expected="a token of the answer")


def check_place(served: Served, generation: Generation, finished: str, at: int) -> None:
    """Raises InvalidField unless a token that is wholly shown is in this place."""
    count = len(tokens_of(served, generation, finished))
    if not 0 <= at < count:
        shown = f"0 to {count - 1}, the tokens that are shown" if count else "none: no token is shown"
        raise InvalidField("at", seen=at, expected=shown)


def continued(served: Served, generation: Generation, finished: str, at: int, token: int) -> ChatRequest:
    """The request for an answer that is another one before place `at`, and has `token` there. Raises InvalidField."""
    check_place(served, generation, finished, at)
    if not 0 <= token < served.tokenizer.vocabulary or token in served.renderer.never:
        raise InvalidField("token", seen=token, expected="an id that the model writes")
    return replace(generation.request, given=(*generation.ids[:at], token))


def named(served: Served, token: int) -> Token:
    """A token by itself."""
    spelled = served.tokenizer.spelled[token]
    try:
        return _token(served, token, spelled.decode())
    except UnicodeDecodeError:
        return _token(served, token, "")


def _token(served: Served, token: int, text: str) -> Token:
    if text:
        return Token(token, text)
    if token == served.renderer.end or token in served.tokenizer.ends:
        return Token(token, "", "the end")
    spelled = served.tokenizer.spelled[token]
    return Token(token, "", f"bytes {spelled.hex(' ')}" if spelled else f"token {token}")
