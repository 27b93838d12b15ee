"""The policies of the last iterations, of which one answers: that of a fixed number of iterations before.

Promises: which policy answers follows from the iteration and the training alone. The first iterations after a
checkpoint are answered by the checkpoint's policy, so that a job which is resumed there needs no older one.
"""

from torch import Tensor

from tutti.model.programs.grpo import GrpoParameters
from tutti.model.training import Training


class LaggedPolicy:
    """Keeps copies of parameters; none with a lag of 0."""

    def __init__(self, training: Training, settings: GrpoParameters) -> None:
        self._lag, self._between = settings.lag, max(1, training.checkpoint_every // settings.updates)
        self._kept: dict[int, Tensor] = {}
        self._answering: Tensor | None = None

    def policy_of(self, iteration: int) -> int:
        """The iteration at whose first step the policy was the one that answers this iteration."""
        return max(iteration - iteration % self._between, iteration - self._lag)

    def parameters(self, iteration: int, now: Tensor) -> Tensor:
        """Return the parameters that answer an iteration, at whose first step they are `now`; [layout.elements].

        Iterations come one by one from a checkpoint on. The result is the same tensor each time, overwritten.
        """
        if not self._lag:
            return now
        chosen = self.policy_of(iteration)
        self._kept = {at: kept for at, kept in self._kept.items() if at >= chosen} | {iteration: now.clone()}
        if self._answering is None:
            self._answering = now.clone()
        return self._answering.copy_(self._kept[chosen])
