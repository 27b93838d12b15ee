"""A reward model: a checkpoint with a scalar head, which scores answers in blocks of a leaf's shape."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from tutti.inference.parameters import parameters_of
from tutti.inference.scoring import rewards
from tutti.model.training import Training
from tutti.model.transformer import Transformer
from tutti.trainer.batches.samples import refused
from tutti.trainer.batches.staged import Staged


class RewardModel:
    """Scores texts of a training's tokenizer and template."""

    def __init__(self, staged: Staged, training: Training) -> None:
        """Raises RankFailure where it is no reward model of this tokenizer, CheckpointError."""
        found = staged.checkpoint(training, "reward")
        body, model = found.body, found.body.layout.model
        for what, seen, expected in (
            ("a scalar head", model.scalar_head, True),
            ("the tokenizer", body.tokenizer, training.tokenizer),
            ("the chat template", body.template, training.template),
        ):
            if seen != expected:
                raise refused(
                    f"the reward model {body.name}: {what} is {seen or 'none'}, expected {expected}; take a checkpoint "
                    "of a stage `reward` that goes back to the same tokenizer"
                )
        if model.context < training.length:
            raise refused(
                f"the reward model {body.name} reads {model.context} tokens; expected {training.length}, a row of "
                "the policy"
            )
        self._rows, self._length = training.step.rows, training.length
        vector = torch.from_numpy(parameters_of(found))
        self._transformer = Transformer(body.layout, vector, compiled=False)

    def __call__(self, texts: Sequence[Sequence[int]], begins: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return the score of each text, float64 [len(texts)]; `begins` is where its answer begins."""
        return rewards(self._transformer, texts, begins, rows=self._rows, length=self._length)
