"""Proximal policy optimisation: as grpo, with each token credited by a value model that learns beside the policy.

The value model is a part of the state; it begins as the critic, a reward model. See `tutti.trainer.policies.valued`.
"""

from tutti.model.policy import ClippedPolicy
from tutti.model.spec import SpecError
from tutti.model.training import Training
from tutti.trainer.batches.staged import Staged
from tutti.trainer.policies.policydata import PolicyData
from tutti.trainer.policies.valued import ValuedRollouts
from tutti.trainer.programs import grpo
from tutti.trainer.programs.program import Program


def read(staged: Staged, training: Training) -> PolicyData:
    """Raises RankFailure, CorpusError, SpecError, CheckpointError."""
    if not training.model.value_model:
        raise SpecError("the model has no value model; ppo needs model.value_model")
    return grpo.read(staged, training, ValuedRollouts)


PROGRAM = Program(
    name="ppo",
    objective=lambda training: ClippedPolicy(),
    read=read,
    measure=grpo.measure,
    measure_due=lambda training, step: True,
    checkpoint_due=Training.checkpoint_due,
    experience=lambda data: data.experience,
)
