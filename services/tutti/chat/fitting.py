"""The part of a conversation that fits into the context of a model: the oldest turns leave first."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tutti.chassis.errors import InvalidField
from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.rendered import Renderer, TemplateError

SHARE = 4
"""The answer has 1/SHARE of the context for itself, or the tokens that were asked for, if those are fewer."""


@dataclass(frozen=True)
class Fitting:
    """`messages` are sent, `unsent` is the number of older turns that are not, `tokens` the length of the prompt.

    `answer` is the number of tokens that were kept free for the answer.
    """

    messages: tuple[Message, ...]
    unsent: int
    tokens: int
    answer: int


def fitting(renderer: Renderer, length: int, turns: Sequence[Message], *, system: str = "", answer: int = 0) -> Fitting:
    """The newest turns that fit into `length` tokens with the system prompt and room for an answer of `answer` tokens.

    The last message is the user's and is always sent, so is the system prompt; what is sent begins with a message of
    the user. Raises InvalidField where the last message alone leaves no room.
    """
    quarter = max(1, length // SHARE)
    free = min(answer, quarter) if answer else quarter
    room = length - free
    head = (Message(Role.SYSTEM, system),) if system else ()
    begins = [at for at, each in enumerate(turns) if each.role is Role.USER]

    def tokens(at: int) -> int:
        try:
            return len(renderer.open((*head, *turns[at:])))
        except TemplateError as error:
            raise InvalidField("text", seen=f"{len(turns) - at} messages", expected=str(error)) from None

    chosen = bisect_left(begins, True, hi=len(begins) - 1, key=lambda at: tokens(at) <= room)
    sent = tokens(begins[chosen])
    if sent >= length:
        raise InvalidField("text", seen=f"{sent} tokens", expected=f"fewer than {length}, the context of the model")
    return Fitting((*head, *turns[begins[chosen] :]), begins[chosen], sent, min(free, length - sent))


def typed(renderer: Renderer, fits: Fitting) -> int:
    """Return the tokens of the last message, without those that the template has for each message.

    A template that refuses an empty message gives no such number: then they are the tokens of all that is sent.
    """
    *before, last = fits.messages
    try:
        return fits.tokens - len(renderer.open((*before, replace(last, content=""))))
    except TemplateError:
        return fits.tokens
