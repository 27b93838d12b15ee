"""The checkpoint that a stage begins with: its model and its tokenizer, of a training or of an import."""

from dataclasses import dataclass
from typing import Self

from tutti.checkpoints.bodies import Body
from tutti.checkpoints.imported import ImportBody
from tutti.model.spec import ModelSpec
from tutti.model.training import Conversion


@dataclass(frozen=True)
class Begun:
    """`tokenizer` is its version, "" where only `dataset`, the digest of the training data, names it.

    `conversion` is absent unless the checkpoint has to be extended. `template` is the digest of the chat template that
    a stage takes for it, "" before that is known.
    """

    model: ModelSpec
    tokenizer: str
    dataset: str
    conversion: Conversion | None = None
    template: str = ""

    @classmethod
    def of(cls, body: Body) -> Self:
        """The same of the contents of a manifest."""
        if isinstance(body, ImportBody):
            return cls(body.layout.model, body.tokenizer, "")
        return cls(body.training.model, body.training.tokenizer, body.training.dataset)
