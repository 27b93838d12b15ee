"""Answers as the bodies of OpenAI's API: one object, or chunks of a stream, of chat completions or of completions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti.chat.saying import Piece, Scored
from tutti.corpus.tokens.tokenizer import BytePairTokenizer


@dataclass(frozen=True)
class Usage:
    """`prompt` and `completion` are numbers of tokens."""

    prompt: int
    completion: int

    def to_json(self) -> dict[str, object]:
        total = self.prompt + self.completion
        return {"prompt_tokens": self.prompt, "completion_tokens": self.completion, "total_tokens": total}


@dataclass
class Whole:
    """A choice that is collected until its end."""

    text: str = ""
    finished: str = ""
    scores: list[Scored] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        self.text += piece.text
        self.finished = piece.finished or self.finished
        self.scores += piece.scores


@dataclass(frozen=True)
class Head:
    """All that the bodies of an answer have in common.

    `created` is in seconds since 1970; `tokenizer` spells the tokens that have log-probabilities.
    """

    id: str
    model: str
    created: int
    fingerprint: str
    tokenizer: BytePairTokenizer
    scored: bool

    def common(self, kind: str) -> dict[str, object]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }

    def spelled(self, token: int) -> str:
        """The text of a token; its bytes where they are part of a character, its name where it is no text."""
        held = self.tokenizer.spelled[token]
        if not held:
            return named(self.tokenizer, token)
        try:
            return held.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in held)


@dataclass(frozen=True)
class ChatBodies:
    """The bodies of a chat completion."""

    head: Head

    def whole(self, choices: Sequence[Whole], usage: Usage) -> dict[str, object]:
        """The body of an answer that is not streamed."""
        found = [
            {
                "index": index,
                "message": {"role": "assistant", "content": each.text, "refusal": None},
                "logprobs": self._logprobs(each.scores),
                "finish_reason": each.finished,
            }
            for index, each in enumerate(choices)
        ]
        return {**self.head.common("chat.completion"), "choices": found, "usage": usage.to_json()}

    def first(self, index: int) -> Iterable[dict[str, object]]:
        yield self._chunk(index, {"role": "assistant", "content": ""}, (), None)

    def part(self, piece: Piece) -> Iterable[dict[str, object]]:
        if piece.text or piece.scores:
            yield self._chunk(piece.choice, {"content": piece.text}, piece.scores, None)
        if piece.finished:
            yield self._chunk(piece.choice, {}, (), piece.finished)

    def usage(self, usage: Usage) -> dict[str, object]:
        return {**self.head.common("chat.completion.chunk"), "choices": [], "usage": usage.to_json()}

    def _chunk(
        self, index: int, delta: dict[str, object], scores: Sequence[Scored], finished: str | None
    ) -> dict[str, object]:
        logprobs = self._logprobs(scores) if delta.get("content") or scores else None
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finished}
        return {**self.head.common("chat.completion.chunk"), "choices": [choice]}

    def _logprobs(self, scores: Iterable[Scored]) -> dict[str, object] | None:
        """Those of tokens that are text."""
        if not self.head.scored:
            return None
        spelled = self.head.tokenizer.spelled
        content = [
            {
                **self._token(each.token, each.logprob),
                "top_logprobs": [self._token(token, logprob) for token, logprob in each.alternatives],
            }
            for each in scores
            if spelled[each.token]
        ]
        return {"content": content, "refusal": None}

    def _token(self, token: int, logprob: float | None) -> dict[str, Any]:
        held = self.head.tokenizer.spelled[token]
        return {"token": self.head.spelled(token), "logprob": logprob, "bytes": [*held] if held else None}


@dataclass(frozen=True)
class TextBodies:
    """The bodies of a completion."""

    head: Head

    def whole(self, choices: Sequence[Whole], usage: Usage) -> dict[str, object]:
        """The body of an answer that is not streamed."""
        found = [self._choice(index, each.text, each.scores, each.finished) for index, each in enumerate(choices)]
        return {**self.head.common("text_completion"), "choices": found, "usage": usage.to_json()}

    def first(self, index: int) -> Iterable[dict[str, object]]:
        return ()

    def part(self, piece: Piece) -> Iterable[dict[str, object]]:
        if piece.text or piece.scores or piece.finished:
            choice = self._choice(piece.choice, piece.text, piece.scores, piece.finished or None)
            yield {**self.head.common("text_completion"), "choices": [choice]}

    def usage(self, usage: Usage) -> dict[str, object]:
        return {**self.head.common("text_completion"), "choices": [], "usage": usage.to_json()}

    def _choice(self, index: int, text: str, scores: Sequence[Scored], finished: str | None) -> dict[str, object]:
        return {"index": index, "text": text, "logprobs": self._logprobs(scores), "finish_reason": finished}

    def _logprobs(self, scores: Sequence[Scored]) -> dict[str, object] | None:
        if not self.head.scored:
            return None
        spelled = self.head.spelled
        return {
            "tokens": [spelled(each.token) for each in scores],
            "token_logprobs": [each.logprob for each in scores],
            "top_logprobs": [
                None
                if each.logprob is None
                else {spelled(token): logprob for token, logprob in (*each.alternatives, (each.token, each.logprob))}
                for each in scores
            ],
            "text_offset": [each.at for each in scores],
        }


Bodies = ChatBodies | TextBodies


def named(tokenizer: BytePairTokenizer, token: int) -> str:
    """The name of a token that is no text, such as <|endoftext|>; empty for an id without one."""
    try:
        return tokenizer.spelling_of(token)
    except KeyError:
        return ""
