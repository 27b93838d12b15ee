"""A chat answer as text: from a request to the pieces that a reader may see, over replicas that see token ids alone.

Promises: after a stop string, or where the filter withholds the rest, the completion is cancelled at its replica.
"""

import math
from collections.abc import AsyncGenerator, Sequence

from tutti.chassis.errors import InvalidField
from tutti.chat.filter.release import judged
from tutti.chat.filter.words import Withheld, words_for
from tutti.chat.requests import ChatRequest
from tutti.chat.routing import Router
from tutti.chat.saying import FILTERED, Piece, Record, Saying, Served, asked, shown_texts
from tutti.corpus.conversations.conversations import Message
from tutti.corpus.conversations.rendered import TemplateError
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference.engine import Chosen, Join
from tutti.inference.limits import Limits, Stop

FINISHED = {Stop.END: "stop", Stop.TOKENS: "length", Stop.CONTEXT: "length"}


def joined(served: Served, request: ChatRequest, *, id: str, seed: int, salt: str) -> Join:
    """The completion that answers a request for one choice. Raises InvalidField for one that leaves no room.

    Where the log-probabilities of an echo are asked for, its prompt is the first token, and the others are forced.
    """
    prompt, name = _prompt(served, request), "prompt" if request.prompts else "messages"
    scored = request.echo and request.alternatives is not None
    room = served.length - len(prompt)
    if room < (0 if scored and not request.tokens else 1):
        raise InvalidField(
            name, seen=f"{len(prompt)} tokens", expected=f"fewer than {served.length}, the model's context"
        )
    tokenizer, renderer = served.tokenizer, served.renderer
    tokens, forced = room if request.tokens is None else request.tokens, prompt[1:] if scored else ()
    most = max(1, tokens + len(forced), len(request.given))
    limits = Limits(most, renderer.end, tokenizer.vocabulary, renderer.never, tokenizer.ends)
    return Join(
        id,
        0,
        prompt[:1] if scored else prompt,
        request.sampling(seed),
        limits,
        request.shaping,
        salt=salt,
        given=request.given,
        alternatives=min(request.alternatives or 0, tokenizer.vocabulary),
        forced=forced,
    )


def _prompt(served: Served, request: ChatRequest) -> tuple[int, ...]:
    """The token ids that are continued. Raises InvalidField."""
    if request.prompts:
        [prompt] = request.prompts
        ids = encoded(served.tokenizer, prompt) if isinstance(prompt, str) else prompt
        if wrong := [each for each in ids if each >= served.tokenizer.vocabulary]:
            raise InvalidField("prompt", seen=wrong[0], expected=f"ids below {served.tokenizer.vocabulary}")
        return ids or (served.tokenizer.eos,)
    return rendered(served, request.messages)


def rendered(served: Served, messages: Sequence[Message]) -> tuple[int, ...]:
    """The token ids of a conversation, after which its answer is written. Raises InvalidField."""
    try:
        return tuple(served.renderer.open(messages).tolist())
    except TemplateError as error:
        raise InvalidField("messages", seen=f"{len(messages)} messages", expected=str(error)) from None


def encoded(tokenizer: BytePairTokenizer, text: str) -> tuple[int, ...]:
    """The ids of a text, after those that the tokenizer puts before every text."""
    return (*tokenizer.opening, *tokenizer.encode(text).tolist())


async def pieces(served: Served, request: ChatRequest, router: Router, record: Record) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of an answer, and keep its ids and its text in `record`. Raises what `Answer.events` raises."""
    if piece := refused(served, request, record):
        yield piece
        return
    saying, join = Saying(served, request, record), record.request
    for at, token in enumerate(join.given):
        for piece in saying.push(Chosen(join.id, at, token, math.nan)):
            yield piece
        if saying.ended:
            return
    if stop := _stop(request, join):
        yield saying.end(FINISHED[stop])
        return
    record.answer = router.answer(record.request, model=served.model)
    events = record.answer.events()
    try:
        async for event in events:
            if isinstance(event, Chosen):
                for piece in saying.push(event):
                    yield piece
                if saying.ended:
                    return
            else:
                yield saying.end(FINISHED[event.stop])
    finally:
        await events.aclose()


def _stop(request: ChatRequest, join: Join) -> Stop | None:
    """The end of a completion for which no token is left to be chosen."""
    if join.given and join.limits.is_end(join.given[-1]):
        return Stop.END
    is_full = len(join.given) >= join.limits.tokens or (request.tokens == 0 and not join.forced)
    return Stop.TOKENS if is_full else None


def refused(served: Served, request: ChatRequest, record: Record) -> Piece | None:
    """The whole answer to a request that the filter refuses."""
    for number, text in enumerate(shown_texts(request, served.tokenizer)):
        record.decisions += judged(served.filter.prompt, text, number).decisions
    if not record.decisions:
        return None
    record.cut, record.text = 0, words_for(Withheld.PROMPT, asked(request))
    return Piece(None, record.text, FILTERED)
