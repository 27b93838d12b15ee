"""A chat answer as text: from a request to the pieces that a reader may see, over replicas that see token ids alone.

Promises: piece k is what token k made visible, so pieces do not depend on replicas, moves or timing; after a stop
string, or where the filter withholds the rest, the completion is cancelled at its replica. No piece has a character
that the filter withholds.
"""

from bisect import bisect_left
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from tutti.chassis.errors import InvalidField
from tutti.chat.filter.release import NONE, Decision, Filter, Release, judged
from tutti.chat.filter.words import Withheld, words_for
from tutti.chat.requests import ChatRequest
from tutti.chat.routing import Answer, Router
from tutti.chat.visible import Visible
from tutti.corpus.conversations.rendered import Renderer, TemplateError
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference.engine import Chosen, Join
from tutti.inference.limits import Limits, Stop

FILTERED = "content_filter"
FINISHED = {Stop.END: "stop", Stop.TOKENS: "length", Stop.CONTEXT: "length"}


@dataclass(frozen=True)
class Served:
    """The model that answers: `model` is the digest of the parameters, `length` the context in tokens."""

    model: str
    length: int
    tokenizer: BytePairTokenizer
    renderer: Renderer
    filter: Filter = NONE


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
    decisions: list[Decision] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """The number of characters that each token and those before it made visible, before the filter."""
    cut: int | None = None
    """The number of characters that were shown, where the filter withheld the rest."""

    @property
    def released(self) -> int:
        """The number of tokens of which a character was shown, and of those before them."""
        if self.cut is None:
            return len(self.ids)
        return bisect_left(self.ends, self.cut) + 1 if self.cut else 0


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
    for number, message in enumerate(request.messages):
        record.decisions += judged(served.filter.prompt, message.content, number).decisions
    if record.decisions:
        record.cut, record.text = 0, words_for(Withheld.PROMPT, request.messages[-1].content)
        yield Piece(None, record.text, FILTERED)
        return
    visible, release = Visible(served.tokenizer.spelled, request.stops), Release(served.filter.answer)

    def shown(text: str) -> str:
        record.text += text
        return text

    def last(text: str, finished: str) -> Piece:
        """The last piece, with words of the filter if it withholds the rest."""
        record.decisions, record.cut = release.decisions, release.cut
        if release.cut is not None:
            words = words_for(Withheld.ANSWER, f"{request.messages[-1].content} {record.text}{text}")
            text, finished = f"{text}\n\n{words}" if record.text or text else words, FILTERED
        return Piece(None, shown(text), finished)

    record.answer = router.answer(record.request, model=served.model)
    events = record.answer.events()
    try:
        async for event in events:
            if isinstance(event, Chosen):
                text = visible.push(event.token)
                record.ids.append(event.token)
                record.ends.append((record.ends or [0])[-1] + len(text))
                yield Piece(event.token, shown(release.push(text)))
                if release.cut is not None:
                    yield last("", FILTERED)
                    return
                if visible.stopped:
                    yield last(release.finish(), "stop")
                    return
            else:
                yield last(release.push(visible.finish()) + release.finish(), FINISHED[event.stop])
    finally:
        await events.aclose()
