"""Reward learning: a scalar head over the mean of an answer's hidden states, fitted to preferences.

The answer with the higher score is the one that is promised to be preferred.
"""

from collections.abc import Iterable

import torch

from tutti.model.batch import CheckedBatch
from tutti.model.preference import RewardPairs, pairs_of
from tutti.model.programs.reward import RewardParameters
from tutti.model.spec import SpecError
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.model.transformer import Transformer
from tutti.trainer.calibration import measured
from tutti.trainer.comparisons import ROWS, Comparisons
from tutti.trainer.metrics import Metrics
from tutti.trainer.programs.program import Program
from tutti.trainer.staged import Staged


def read(staged: Staged, training: Training) -> Comparisons:
    """The pairs whose answers fit into a row whole: the state after the last token is read too. Raises RankFailure."""
    parameters = training.program_parameters
    assert isinstance(parameters, RewardParameters)
    if not training.model.scalar_head:
        raise SpecError("the model has no scalar head; a reward model needs model.scalar_head")
    return Comparisons(staged, training, held_out=parameters.held_out, room=training.length)


def margins(transformer: Transformer, batch: CheckedBatch) -> Iterable[float]:
    """The difference between the scores of the two answers of each pair."""
    device = transformer.device
    tokens, documents, pooled = (
        torch.from_numpy(array).to(device) for array in (batch.tokens, batch.documents, pairs_of(batch).pooled)
    )
    scores = transformer.scores(tokens, documents, pooled)
    return [float(each) for each in scores[0::2] - scores[1::2]]


def measure(step: RankStep, data: Comparisons) -> Metrics | None:
    """Loss, accuracy and calibration on the pairs that are held out; None where there are none."""
    if data.held_out_leaves == 0:
        return None
    found = step.scores(data.held_out_leaves, data.held_out_leaf, margins, step.step_spec.rows // ROWS)
    return measured(found.flatten()[: len(data.held_out)], data.held_out)


PROGRAM = Program(
    name="reward",
    objective=lambda training: RewardPairs(),
    read=read,
    measure=measure,
    measure_due=Training.validation_due,
    checkpoint_due=Training.checkpoint_due,
)
