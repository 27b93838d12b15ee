"""Reward learning: a scalar head over the mean of an answer's hidden states, fitted to preferences.

The answer with the higher score is the one that is promised to be preferred. After the last step the head is divided
by a temperature, so that the sigmoid of a margin is the share of judgements that prefer the first answer.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import torch

from tutti.model.batch import CheckedBatch
from tutti.model.preference import RewardPairs, pairs_of
from tutti.model.programs.reward import RewardParameters
from tutti.model.spec import SpecError
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.model.transformer import Transformer
from tutti.trainer.batches.calibration import measured, temperature
from tutti.trainer.batches.comparisons import ROWS, Comparisons
from tutti.trainer.batches.staged import Staged
from tutti.trainer.metrics import Metrics
from tutti.trainer.programs.program import Program


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
    return data.counted(measured(_held_out(step, data), data.held_out)) if data.held_out else None


def calibrate(step: RankStep, data: Comparisons) -> Mapping[str, float]:
    """Divide the head by the temperature that the pairs which are held out call for; nothing where there are none."""
    if not data.held_out:
        return {}
    found = temperature(_held_out(step, data), data.held_out)
    step.scale("scalar", 1.0 / found)
    return {"temperature": found}


def _held_out(step: RankStep, data: Comparisons) -> npt.NDArray[np.float64]:
    """The margins of the pairs that are held out, float64[pairs]."""
    found = step.scores(data.held_out_leaves, data.held_out_leaf, margins, step.step_spec.rows // ROWS)
    return found.flatten()[: len(data.held_out)]


PROGRAM = Program(
    name="reward",
    objective=lambda training: RewardPairs(),
    read=read,
    measure=measure,
    finish=calibrate,
    measure_due=Training.validation_due,
    checkpoint_due=Training.checkpoint_due,
)
