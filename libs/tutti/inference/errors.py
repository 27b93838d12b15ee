"""The errors of inference.

Each says what was seen, what was expected and what to do.
"""


class InferenceError(Exception):
    """Base of every error that this library raises on purpose."""


class InvalidSampling(InferenceError):
    """Sampling is asked for in a way that cannot be; `field` is the parameter."""

    def __init__(self, field: str, *, seen: object, expected: str) -> None:
        super().__init__(f"{field} is {seen!r}; expected {expected}")
        self.field, self.seen, self.expected = field, seen, expected


class PromptTooLong(InferenceError):
    """A prompt leaves no room in the model's context."""


class NotFinite(InferenceError):
    """The model computed something that is no number."""
