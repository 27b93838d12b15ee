"""The canonical scalars of a state: step, position, loss scale, skipped steps, ledger.

They are under the state digest and equal on all ranks; nothing of the topology or of time is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tutti.checkpoints.errors import CheckpointError
from tutti.corpus.tokens.ledger import Ledger
from tutti.model.results import Scalars
from tutti.model.spec import SpecError
from tutti.records.canonical import JsonValue, canonical_json, parse_json
from tutti.records.errors import CorpusError
from tutti.records.fields import Fields
from tutti.records.records import unread, written_later


@dataclass(frozen=True)
class StateScalars:
    """`position`: samples read since step 0. `ledger.skipped` gives the cause of each of `model.skipped`."""

    model: Scalars
    position: int
    ledger: Ledger

    def __post_init__(self) -> None:
        if self.position < 0:
            raise CheckpointError(f"scalars.position is {self.position}; expected 0 or more")
        if len(self.ledger.skipped) != len(self.model.skipped):
            raise CheckpointError(
                f"the ledger has {len(self.ledger.skipped)} skipped steps, the state {len(self.model.skipped)}; "
                "expected one cause a skipped step"
            )

    @property
    def step(self) -> int:
        return self.model.step

    def to_dict(self) -> dict[str, JsonValue]:
        return {
            **self.model.to_dict(),
            "ledger": self.ledger.to_json(),
            "position": self.position,
            **written_later(self),
        }

    def to_json(self) -> str:
        """Canonical JSON: what travels as `scalars` in rank messages."""
        return canonical_json(self.to_dict()).decode()

    @classmethod
    def from_json(cls, text: str) -> StateScalars:
        """Raises CheckpointError on anything that `to_json` would not have written."""
        try:
            return cls.from_dict(parse_json(text))
        except CheckpointError:
            raise
        except CorpusError as error:
            raise CheckpointError(str(error)) from error

    @classmethod
    def from_dict(cls, value: object) -> StateScalars:
        fields = Fields(value, path="scalars", error=CheckpointError)
        try:
            model = Scalars(
                fields.count("step"),
                tuple(fields.counts("skipped")),
                fields.number("loss_scale"),
                **fields.later(Scalars),
            )
        except SpecError as error:
            raise CheckpointError(str(error)) from error
        ledger = fields.value("ledger")
        if not isinstance(ledger, Mapping):
            raise CheckpointError(f"scalars.ledger: expected an object, seen {type(ledger).__name__}")
        made = cls(model, fields.count("position"), Ledger.from_json(ledger), **fields.later(cls))
        assert isinstance(value, Mapping)
        if unknown := list(unread(value, made.to_dict())):
            raise CheckpointError(f"scalars.{', scalars.'.join(unknown)}: not known to this version")
        return made
