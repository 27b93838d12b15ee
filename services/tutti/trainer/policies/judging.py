"""The rewards of rollouts: a reward model, verifiable functions, or the weighted sum of them.

Promises: a reward follows from the rollout alone. A function that raises, hangs, or returns what is no finite number
ends the attempt with its name, the rollout and the cause.
"""

import contextlib
import math
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.corpus.conversations.rewards import Answered, Reward, reward_of
from tutti.model.programs.grpo import GrpoParameters
from tutti.trainer.failures import RankFailure, Reason

ScoreTexts = Callable[[Sequence[Sequence[int]], Sequence[int]], npt.NDArray[np.float64]]
"""From the tokens of prompts with their answers, and where each answer begins, the rewards by a reward model."""


class Judge:
    """The rewards that a training asks for."""

    def __init__(self, settings: GrpoParameters, model: ScoreTexts | None) -> None:
        """Raises InvalidReward for a function that does not exist, RankFailure where nothing gives a reward."""
        self._settings, self._model = settings, model
        self._functions: list[tuple[str, float, Reward]] = [
            (each.name, each.weight, reward_of(each.name, each.argument)) for each in settings.functions
        ]
        if model is None and not self._functions:
            raise RankFailure(Reason.DATA_REFUSED, "nothing gives a reward; expected a reward model or a function")

    def rewards(
        self,
        numbers: Sequence[int],
        answers: Sequence[Answered],
        texts: Sequence[Sequence[int]],
        begins: Sequence[int],
    ) -> npt.NDArray[np.float64]:
        """Return the reward of each rollout, float64 [len(numbers)]; `texts` are the tokens of prompt and answer, which
        begins at `begins`.

        Raises RankFailure.
        """
        found = np.zeros(len(numbers))
        if self._model is not None and len(texts):
            scores = self._model(texts, begins)
            for number, score in zip(numbers, scores.tolist(), strict=True):
                _require_finite("the reward model", number, score)
            found += self._settings.reward_weight * scores
        for name, weight, function in self._functions:
            for place, (number, answered) in enumerate(zip(numbers, answers, strict=True)):
                found[place] += weight * self._called(name, function, number, answered)
        return found

    def _called(self, name: str, function: Reward, number: int, answered: Answered) -> float:
        seconds = self._settings.deadline
        where = f"the reward function {name}, for rollout {number}"
        try:
            with _deadline(seconds):
                value = float(function(answered))
        except _Expired:
            raise RankFailure(Reason.REWARD_FAILED, f"{where}: no answer within {seconds:g} s") from None
        except Exception as error:
            raise RankFailure(Reason.REWARD_FAILED, f"{where}: {type(error).__name__}: {error}") from error
        _require_finite(f"the reward function {name}", number, value)
        return value


class _Expired(BaseException):
    """Not an Exception, so that a function cannot swallow it."""


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """For the main thread: a regular expression that backtracks holds the interpreter against every other thread."""

    def expired(*_: Any) -> None:
        raise _Expired

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _require_finite(what: str, number: int, value: float) -> None:
    if not math.isfinite(value):
        raise RankFailure(Reason.REWARD_FAILED, f"{what} gave rollout {number} the reward {value}; expected a number")
