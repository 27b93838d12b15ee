"""Direct preference optimisation: a policy fitted to preferences, held near the checkpoint that it begins with.

The reference is a model of the training. Its log-probabilities are computed by the forward of the very leaf that they
are compared in, so that before the first step all margins are zero, to the bit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch

from tutti.corpus.tokens.ledger import Ledger
from tutti.inference.parameters import parameters_of
from tutti.model.batch import CheckedBatch
from tutti.model.preference import DirectPreference, pairs_of
from tutti.model.programs.dpo import DpoParameters
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.model.transformer import Transformer
from tutti.trainer.batches.calibration import measured
from tutti.trainer.batches.comparisons import ROWS, Comparisons, PairBatch
from tutti.trainer.batches.samples import refused
from tutti.trainer.batches.staged import Staged
from tutti.trainer.metrics import Metrics
from tutti.trainer.programs.program import Program

REFERENCE = "reference"


def parameters(training: Training) -> DpoParameters:
    found = training.program_parameters
    assert isinstance(found, DpoParameters)
    return found


def objective(training: Training) -> DirectPreference:
    return DirectPreference(parameters(training).beta)


class ReferredPairs(Comparisons):
    """Pairs with the log-probabilities of the reference."""

    def __init__(self, staged: Staged, training: Training) -> None:
        """Raises RankFailure, CorpusError, CheckpointError."""
        held_out, room = parameters(training).held_out, training.length + 1
        super().__init__(staged, training, held_out=held_out, room=room)
        self._checkpoint = staged.checkpoint(training, REFERENCE)
        if (seen := self._checkpoint.body.layout.model) != training.model:
            raise refused(f"the reference is the model {seen}; expected that of the training, {training.model}")
        self._reference: Transformer | None = None

    def prepare(self, step: RankStep, number: int) -> None:
        """Bring the reference to the device of the step, once."""
        if self._reference is None:
            vector = torch.from_numpy(parameters_of(self._checkpoint)).to(step.parameters)
            compiled = self.training.step.compile
            self._reference = Transformer(self._checkpoint.body.layout, vector, compiled=compiled)

    def leaves(self, ledger: Ledger, step: int, wanted: Sequence[int]) -> Mapping[int, PairBatch]:
        return {leaf: self._referred(batch) for leaf, batch in super().leaves(ledger, step, wanted).items()}

    def held_out_leaf(self, leaf: int) -> PairBatch:
        return self._referred(super().held_out_leaf(leaf))

    def _referred(self, batch: PairBatch) -> PairBatch:
        assert self._reference is not None, "prepare brings the reference"
        device = self._reference.device
        tokens, documents = (
            torch.from_numpy(array).to(device, torch.int64) for array in (batch.tokens, batch.documents)
        )
        found = self._reference.log_probabilities(tokens, documents).view(batch.valid.shape)
        return replace(batch, reference=found.cpu().numpy())


def measure(step: RankStep, data: ReferredPairs) -> Metrics | None:
    """Loss, accuracy and calibration on the pairs that are held out; None where there are none."""
    if data.held_out_leaves == 0:
        return None
    preference = objective(data.training)

    def margins(transformer: Transformer, batch: CheckedBatch) -> Iterable[float]:
        device = transformer.device
        tokens, documents, valid = (
            torch.from_numpy(array).to(device) for array in (batch.tokens, batch.documents, batch.valid)
        )
        chances = transformer.log_probabilities(tokens, documents)
        return [float(each) for each in preference.margins(chances, valid, pairs_of(batch))]

    found = step.scores(data.held_out_leaves, data.held_out_leaf, margins, step.step_spec.rows // ROWS)
    return data.counted(measured(found.flatten()[: len(data.held_out)], data.held_out))


PROGRAM = Program(
    name="dpo",
    objective=objective,
    read=ReferredPairs,
    measure=measure,
    measure_due=Training.validation_due,
    checkpoint_due=Training.checkpoint_due,
)
