"""A completion as text: what each of its tokens makes visible, and which log-probabilities may be seen. Pure.

Promises: piece k is what token k made visible, so pieces do not depend on replicas, moves or timing. No piece has a
character that the filter withholds, or a log-probability of a token that is not wholly shown.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tutti.chat.filter.release import NONE, Decision, Filter, Release, judged
from tutti.chat.filter.words import Withheld, words_for
from tutti.chat.requests import ChatRequest
from tutti.chat.routing import Answer
from tutti.chat.visible import Visible
from tutti.corpus.conversations.rendered import Renderer
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.inference.engine import Chosen, Join

FILTERED = "content_filter"
Score: TypeAlias = tuple[float, tuple[tuple[int, float], ...]]
"""The log-probability of a token in nats, and the likeliest tokens with theirs."""


@dataclass(frozen=True)
class Served:
    """The model that answers: `model` is the digest of the parameters, `length` the context in tokens."""

    model: str
    length: int
    tokenizer: BytePairTokenizer
    renderer: Renderer
    filter: Filter = NONE


@dataclass(frozen=True)
class Scored:
    """A token that is shown, with its log-probability in nats, and `alternatives`, the likeliest first.

    `at` is the number of characters before it. The first token of a text has no log-probability.
    """

    token: int
    at: int
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Piece:
    """The text that a token made visible; the last piece has no token and says why the answer ended.

    `scores` are those of tokens that are wholly shown now; `choice` is the number of the choice.
    """

    token: int | None
    text: str
    finished: str = ""
    scores: tuple[Scored, ...] = ()
    choice: int = 0


@dataclass
class Record:
    """The state of an answer in progress, of which its record is made at its end."""

    request: Join
    ids: list[int] = field(default_factory=list)
    """The tokens so far, those that were forced first."""
    text: str = ""
    answer: Answer | None = None
    """The completion, from the first time that a piece of it was asked for."""
    scores: list[Score] = field(default_factory=list)
    """The log-probabilities of the tokens so far, where they were asked for."""
    decisions: list[Decision] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """The number of characters that each token and those before it made visible, before the filter."""
    echoed: int = 0
    """The number of characters of the prompt in the text."""
    cut: int | None = None
    """The number of characters that were shown, where the filter withheld the rest."""

    @property
    def prompt_tokens(self) -> int:
        return len(self.request.prompt) + len(self.request.forced)

    @property
    def completion_tokens(self) -> int:
        return max(0, len(self.ids) - len(self.request.forced))

    @property
    def released(self) -> int:
        """The number of tokens of which a character was shown, and of those before them."""
        if self.cut is None:
            return self.completion_tokens
        shown = bisect_left(self.ends, self.cut) + 1 if self.cut > self.echoed else 0
        return max(0, shown - len(self.request.forced))


class Saying:
    """The text of a completion, token by token, in `record`."""

    def __init__(self, served: Served, request: ChatRequest, record: Record) -> None:
        self._served, self._request, self._record = served, request, record
        self._visible = Visible(served.tokenizer.spelled, request.stops)
        self._release = Release(served.filter.answer)
        self._waiting: list[tuple[Scored, int]] = []
        self._begun = not request.echo
        self.ended = False

    def push(self, event: Chosen) -> list[Piece]:
        """The piece of a token, and the last one if the text ends with it; nothing follows that."""
        before, record = self._begin(), self._record
        at, is_echo = self._visible.decoded, len(record.ids) < len(record.request.forced)
        text = self._visible.push(event.token, stops=not is_echo)
        record.ids.append(event.token)
        if self._request.alternatives is not None:
            record.scores.append((event.logprob, event.alternatives))
        record.ends.append((record.ends or [record.echoed])[-1] + len(text))
        if is_echo:
            record.echoed = record.ends[-1]
        self._score(Scored(event.token, at, event.logprob, event.alternatives))
        shown = self._shown(before + self._release.push(text))
        pieces = [Piece(event.token, shown, scores=self._scores())]
        if self._release.cut is not None:
            pieces.append(self._last("", FILTERED))
        elif self._visible.stopped:
            pieces.append(self._last(self._release.finish(), "stop"))
        return pieces

    def end(self, finished: str) -> Piece:
        """The last piece, of a completion that ended by itself."""
        before = self._begin()
        return self._last(before + self._release.push(self._visible.finish()) + self._release.finish(), finished)

    def _begin(self) -> str:
        """The text that an echo begins with: that of prompt tokens that are not forced, as far as it may be shown."""
        if self._begun:
            return ""
        self._begun, text = True, ""
        for token in self._record.request.prompt:
            at = self._visible.decoded
            text += self._visible.push(token, stops=False)
            self._score(Scored(token, at))
        self._record.echoed = len(text)
        return self._release.push(text)

    def _shown(self, text: str) -> str:
        self._record.text += text
        return text

    def _last(self, text: str, finished: str) -> Piece:
        """The last piece, with words of the filter if it withholds the rest."""
        record, release, self.ended = self._record, self._release, True
        record.decisions, record.cut = release.decisions, release.cut
        shown = self._shown(text)
        scores = self._scores()
        if release.cut is not None:
            words = words_for(Withheld.ANSWER, f"{asked(self._request)} {record.text}")
            shown += self._shown(f"\n\n{words}" if record.text else words)
            finished = FILTERED
        return Piece(None, shown, finished, scores)

    def _score(self, scored: Scored) -> None:
        """Keep a score until its token is wholly shown: with the character that its last byte is part of."""
        if self._request.alternatives is None:
            return
        kept = tuple(each for each in scored.alternatives if not is_withheld(self._served, each[0]))
        end = self._visible.decoded + int(self._visible.is_partial)
        self._waiting.append((Scored(scored.token, scored.at, scored.logprob, kept), end))

    def _scores(self) -> tuple[Scored, ...]:
        """The scores of tokens that are wholly shown now."""
        shown, found = len(self._record.text), list[Scored]()
        while self._waiting and self._waiting[0][1] <= shown:
            found.append(self._waiting.pop(0)[0])
        return tuple(found)


def is_withheld(served: Served, token: int) -> bool:
    """Return whether the filter would refuse to show a token by itself."""
    side, text = served.filter.answer, served.tokenizer.spelled[token].decode(errors="replace")
    return not side.is_empty and bool(judged(side, text).decisions)


def asked(request: ChatRequest) -> str:
    """The text that a request asks about, for the language of the filter's words."""
    if request.messages:
        return request.messages[-1].content
    return next((each for each in request.prompts if isinstance(each, str)), "")


def shown_texts(request: ChatRequest, tokenizer: BytePairTokenizer) -> Sequence[str]:
    """The texts of a request that the filter judges as its prompt, in their order."""
    if request.messages:
        return [each.content for each in request.messages]
    spelled = tokenizer.spelled
    return [
        each if isinstance(each, str) else b"".join(spelled[token] for token in each).decode(errors="replace")
        for each in request.prompts
    ]
