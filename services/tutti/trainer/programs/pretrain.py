"""Pretraining: next-token prediction over packed documents, measured on the validation split of the dataset."""

from tutti.model.objective import NextToken
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.trainer.data import TrainingData
from tutti.trainer.programs.program import Metrics, Program


def measure(step: RankStep, data: TrainingData) -> Metrics | None:
    """The loss of the validation split; None where it is empty."""
    if data.validation_leaves == 0:
        return None
    nats, tokens = step.evaluate(data.validation_leaves, data.validation_leaf)
    return Metrics(nats, tokens, data.bits_per_byte(nats, tokens))


PROGRAM = Program(
    name="pretrain",
    objective=NextToken(),
    read=TrainingData,
    measure=measure,
    measure_due=Training.validation_due,
    checkpoint_due=Training.checkpoint_due,
)
