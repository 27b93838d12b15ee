"""A chat answer as text: from a request to the pieces that a reader may see, over replicas that see token ids alone.

Promises: piece k is what token k made visible, so pieces do not depend on replicas, moves or timing; after a stop
string the completion is cancelled at its replica.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from tutti.chassis.errors import InvalidField
from tutti.chat.requests import ChatRequest
from tutti.chat.routing import Answer, Router
from tutti.chat.visible import Visible
from tutti.corpus.conversations.rendered import Renderer, TemplateError
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference.engine import Chosen, Join
from tutti.inference.limits import Limits, Stop

FINISHED = {Stop.END: "stop", Stop.TOKENS: "length", Stop.CONTEXT: "length"}


@dataclass(frozen=True)
class Served:
    """The model that answers: `model` is the digest of the parameters, `length` the context in tokens."""

    model: str
    length: int
    tokenizer: BytePairTokenizer
    renderer: Renderer


@dataclass(frozen=True)
class Piece:
    """The text that a token made visible; the last piece has no token and says why the answer ended."""

    token: int | None
    text: str
    finished: str = ""


@dataclass
class Record:
    """The state of an answer in progress, of which its record is made at its end."""

    request: Join
    ids: list[int] = field(default_factory=list)
    text: str = ""
    answer: Answer | None = None
    """The completion, from the first time that a piece of it was asked for."""


def joined(served: Served, request: ChatRequest, *, id: str, seed: int, salt: str) -> Join:
    """The completion that answers a request. Raises InvalidField for messages that leave no room."""
    try:
        prompt = tuple(served.renderer.open(request.messages).tolist())
    except TemplateError as error:
        raise InvalidField("messages", seen=f"{len(request.messages)} messages", expected=str(error)) from None
    room = served.length - len(prompt)
    if room < 1:
        raise InvalidField(
            "messages", seen=f"{len(prompt)} tokens", expected=f"fewer than {served.length}, the model's context"
        )
    tokenizer = served.tokenizer
    renderer = served.renderer
    limits = Limits(request.tokens or room, renderer.end, tokenizer.vocabulary, renderer.never, tokenizer.ends)
    return Join(id, 0, prompt, request.sampling(seed), limits, request.shaping, salt=salt)


async def pieces(served: Served, request: ChatRequest, router: Router, record: Record) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of an answer, and keep its ids and its text in `record`. Raises what `Answer.events` raises."""
    visible = Visible(served.tokenizer.spelled, request.stops)
    record.answer = router.answer(record.request, model=served.model)
    events = record.answer.events()
    try:
        async for event in events:
            if isinstance(event, Chosen):
                text = visible.push(event.token)
                record.ids.append(event.token)
                record.text += text
                yield Piece(event.token, text)
                if visible.stopped:
                    yield Piece(None, "", "stop")
                    return
            else:
                text = visible.finish()
                record.text += text
                yield Piece(None, text, FINISHED[event.stop])
    finally:
        await events.aclose()
