"""What a training job is, apart from where it runs: model, optimizer, step, data and rhythm.

Its digest names the training. Ranks and placement are not in it: they don't change a bit of the result.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import rfc8785

from tutti.model.spec import ModelSpec, OptimizerSpec, Recorded, SpecError, StepSpec


@dataclass(frozen=True)
class Training(Recorded):
    """`dataset` is the content digest of the dataset's manifest; intervals are in steps; 0 turns a thing off.

    A checkpoint is due every `checkpoint_every` steps and after the last one; validation every `validate_every` steps
    and after the last one; the audits every `audit_every` steps.
    """

    model: ModelSpec
    optimizer: OptimizerSpec
    step: StepSpec
    dataset: str
    checkpoint_every: int
    validate_every: int = 0
    audit_every: int = 10

    def __post_init__(self) -> None:
        self._require(
            dataset=(self.dataset.startswith("blake3:"), "a content digest, blake3:..."),
            checkpoint_every=(self.checkpoint_every > 0, "a positive number"),
            validate_every=(self.validate_every >= 0, "0 or more"),
            audit_every=(self.audit_every >= 0, "0 or more"),
        )

    @property
    def steps(self) -> int:
        return self.optimizer.steps

    def checkpoint_due(self, step: int) -> bool:
        return step == self.steps or step % self.checkpoint_every == 0

    def validation_due(self, step: int) -> bool:
        return step == self.steps or (self.validate_every > 0 and step % self.validate_every == 0)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Build from a mapping that has exactly the fields of this class. Raises SpecError."""
        parts: dict[str, type[Recorded]] = {"model": ModelSpec, "optimizer": OptimizerSpec, "step": StepSpec}
        return super().from_dict(
            {name: parts[name].from_dict(part) if name in parts else part for name, part in value.items()}
        )

    def to_json(self) -> str:
        """Canonical JSON (RFC 8785): what travels as `training` in jobs, assignments and rank messages."""
        return rfc8785.dumps(dataclasses.asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises SpecError on anything that `to_json` would not have written."""
        try:
            value = json.loads(text)
        except ValueError as error:
            raise SpecError(f"a training is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise SpecError(f"a training is a JSON object; this is {type(value).__name__}")
        return cls.from_dict(value)
