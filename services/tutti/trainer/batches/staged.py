"""The data of a training, on the local disk and verified. Does not import torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tutti.checkpoints.staged import StagedCheckpoint, open_staged
from tutti.contracts.trainer.v1 import Start
from tutti.model.training import Training


@dataclass(frozen=True)
class Staged:
    """Folders of the datasets, the training's own first, and of the models by role; the tokenizer's file, where the
    dataset does not name one.
    """

    datasets: Sequence[Path]
    tokenizer: Path | None = None
    models: Mapping[str, Path] = field(default_factory=dict)

    def checkpoint(self, training: Training, role: str) -> StagedCheckpoint:
        """Open the model of a role. Raises CheckpointError where it is not the one that the training names."""
        return open_staged(self.models[role], identity=training.model_of(role).state_digest)

    @classmethod
    def of(cls, start: Start) -> "Staged":
        tokenizer = Path(start.tokenizer) if start.tokenizer else None
        folders = {role: Path(folder) for role, folder in start.models.items()}
        return cls([Path(folder) for folder in (start.dataset, *start.mixed)], tokenizer, folders)
