"""Pretraining: next-token prediction over packed documents, measured on the validation split of the dataset."""

from tutti.model.objective import NextToken
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.trainer.batches.data import TrainingData
from tutti.trainer.batches.staged import Staged
from tutti.trainer.metrics import Metrics
from tutti.trainer.programs.program import Program


def read(staged: Staged, training: Training) -> TrainingData:
    """Raises RankFailure, CorpusError."""
    return TrainingData(staged.datasets, training)


def measure(step: RankStep, data: TrainingData) -> Metrics | None:
    """The loss of the validation split; None where it is empty."""
    if data.validation_leaves == 0:
        return None
    nats, tokens = step.evaluate(data.validation_leaves, data.validation_leaf)
    return Metrics(nats, tokens, data.bits_per_byte(nats, tokens))


PROGRAM = Program(
    name="pretrain",
    objective=lambda training: NextToken(),
    read=read,
    measure=measure,
    measure_due=Training.validation_due,
    checkpoint_due=Training.checkpoint_due,
)
