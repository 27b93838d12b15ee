"""A rollout worker: a rank that answers the prompts of a job, iteration by iteration, and keeps no part of its state.

It gets the weights from the actors whenever they change, and ends as every rank ends.
"""

from pathlib import Path

from tutti.checkpoints.staged import open_staged
from tutti.contracts.trainer.v1 import Finished, RankMessage, Ready, Start
from tutti.model.chunks import Layout
from tutti.model.exchange import Exchange
from tutti.model.training import Training
from tutti.trainer.lifeline import WAITING_FOR_WEIGHTS, Lifeline
from tutti.trainer.policies.policydata import PolicyData
from tutti.trainer.policies.rolloutgroup import Split


class Worker:
    """One worker; `work` counts its tokens, and another thread may read it."""

    def __init__(self, training: Training, data: PolicyData, world: Exchange, *, actors: int, device: str) -> None:
        self._training, self._data, self.work = training, data, 0
        data.split(Split(world, Layout(training.model), actors=actors, device=device))

    def run(self, start: Start, lifeline: Lifeline) -> None:
        """Answer until the last iteration. Raises Stopped, RankFailure, CheckpointError."""
        lifeline.work = lambda: self.work
        done = _steps_before(start)
        lifeline.send(RankMessage(ready=Ready(step=done, note=self._data.note)))
        for number in range(done + 1, self._training.steps + 1, self._data.updates):
            lifeline.check_stop()
            lifeline.step, lifeline.phase = number, WAITING_FOR_WEIGHTS
            self._data.answer(number, lambda: self._worked(lifeline))
        lifeline.phase = "finished"
        lifeline.send(RankMessage(finished=Finished(step=self._training.steps)))

    def _worked(self, lifeline: Lifeline) -> None:
        self.work, lifeline.phase = self.work + 1, "answering"


def _steps_before(start: Start) -> int:
    """The steps of the checkpoint to go on from. Raises CheckpointError."""
    return open_staged(Path(start.resume)).state.scalars.model.step if start.resume else 0
