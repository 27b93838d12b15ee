"""Answers as the bodies of OpenAI's chat completions: one object, or chunks of a stream."""

from dataclasses import dataclass

OBJECT, CHUNK = "chat.completion", "chat.completion.chunk"


@dataclass(frozen=True)
class Usage:
    """`prompt` and `completion` are numbers of tokens."""

    prompt: int
    completion: int

    def to_json(self) -> dict[str, object]:
        total = self.prompt + self.completion
        return {"prompt_tokens": self.prompt, "completion_tokens": self.completion, "total_tokens": total}


@dataclass(frozen=True)
class Head:
    """All that the bodies of an answer have in common; `created` is in seconds since 1970."""

    id: str
    model: str
    created: int
    fingerprint: str

    def whole(self, text: str, finished: str, usage: Usage) -> dict[str, object]:
        """The body of an answer that is not streamed."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finished}
        return {**self._common(OBJECT), "choices": [choice], "usage": usage.to_json()}

    def first(self) -> dict[str, object]:
        return self._chunk({"role": "assistant", "content": ""}, None)

    def text(self, text: str) -> dict[str, object]:
        return self._chunk({"content": text}, None)

    def last(self, finished: str) -> dict[str, object]:
        return self._chunk({}, finished)

    def usage(self, usage: Usage) -> dict[str, object]:
        return {**self._common(CHUNK), "choices": [], "usage": usage.to_json()}

    def _chunk(self, delta: dict[str, object], finished: str | None) -> dict[str, object]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finished}
        return {**self._common(CHUNK), "choices": [choice]}

    def _common(self, kind: str) -> dict[str, object]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }
