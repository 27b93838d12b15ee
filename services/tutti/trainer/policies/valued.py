"""Rollouts whose tokens are credited by a value model, which is a part of the state.

Promises: as for rollouts; values are computed in leaf-shaped blocks, and advantages are whitened over the whole batch
in one order, so that they are the same for any number of ranks.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tutti.corpus.conversations.experience import Credit
from tutti.model.advantage import generalised, whitened
from tutti.model.programs.ppo import PpoParameters
from tutti.model.step import RankStep
from tutti.model.transformer import Transformer
from tutti.trainer.policies.rollouts import Credited, Rollouts


class ValuedRollouts(Rollouts):
    """Credits each token for what it adds to what the value model expects."""

    def _credited(
        self,
        step: RankStep,
        policy: Transformer,
        texts: Sequence[Sequence[int]],
        begins: Sequence[int],
        rewards: npt.NDArray[np.float64],
    ) -> list[Credited]:
        settings = self._settings
        assert isinstance(settings, PpoParameters)
        expected = [each.astype(np.float64) for each in self._scored(step, policy, texts, begins, policy.answer_values)]
        raw = [
            generalised(each, reward, discount=settings.discount, trace=settings.trace)
            for each, reward in zip(expected, rewards.tolist(), strict=True)
        ]
        return [
            Credited(
                float(white.mean()),
                kept=True,
                credit=Credit(*(each.astype(np.float32) for each in (value, white, value + gained))),
            )
            for value, gained, white in zip(expected, raw, whitened(raw, self._settings.least_spread), strict=True)
        ]
