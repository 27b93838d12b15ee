"""Supervised fine-tuning: next-token prediction of what the assistant says in demonstrations, and of nothing else."""

from tutti.model.objective import NextToken
from tutti.model.programs.sft import SftParameters
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.trainer.batches.demonstrations import Demonstrations
from tutti.trainer.batches.staged import Staged
from tutti.trainer.metrics import Metrics
from tutti.trainer.programs.program import Program


def read(staged: Staged, training: Training) -> Demonstrations:
    """Raises RankFailure, CorpusError."""
    parameters = training.program_parameters
    assert isinstance(parameters, SftParameters)
    return Demonstrations(staged, training, held_out=parameters.held_out)


def measure(step: RankStep, data: Demonstrations) -> Metrics | None:
    """The loss of the demonstrations that are held out; None where there are none."""
    if data.held_out_leaves == 0:
        return None
    nats, tokens = step.evaluate(data.held_out_leaves, data.held_out_leaf)
    return data.counted(Metrics(nats, tokens))


PROGRAM = Program(
    name="sft",
    objective=lambda training: NextToken(),
    read=read,
    measure=measure,
    measure_due=Training.validation_due,
    checkpoint_due=Training.checkpoint_due,
)
