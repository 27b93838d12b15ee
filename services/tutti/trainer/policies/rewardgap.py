"""The gap between the wins that a reward model promises of a policy's answers and those that a simulated crowd gives.

Promises: a gap follows from the experience, the crowd and the seed, so every rank finds the same one; it changes no
state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tutti.corpus.conversations.experience import Experience, Rollout
from tutti.model.programs.grpo import GrpoParameters
from tutti.trainer.failures import RankFailure, Reason

LEAST_PAIRS = 10
"""Pairs below which a gap says nothing."""
OVERLAP = 3
"""Annotators of a pair."""
NEAR_NINETY_FIVE = 1.96


@dataclass(frozen=True)
class RewardGap:
    """`value` is the promised minus the judged share of wins of the answers that the reward model prefers, with its
    standard `error` over `pairs` pairs.
    """

    value: float
    error: float
    pairs: int

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.value - NEAR_NINETY_FIVE * self.error


class RewardGaps:
    """Fresh judgements of a policy's own answers, by the crowd that a training declares."""

    def __init__(self, settings: GrpoParameters, seed: int) -> None:
        """Raises RankFailure where the crowd cannot be simulated."""
        from tutti.judgements.crowds import Crowd, InvalidCrowd  # pydantic, which no other part of a rank needs

        try:
            self._crowd = Crowd.read(settings.crowd)
        except InvalidCrowd as error:
            raise RankFailure(Reason.DATA_REFUSED, f"the crowd cannot be simulated: {error}") from error
        self._people = self._crowd.annotators(settings.annotators, seed)
        self._weight, self._every, self._seed = settings.reward_weight, settings.gap_every, seed

    def of(self, experience: Experience) -> RewardGap | None:
        """Return the gap of an iteration; None if none is due, or if too few pairs can be compared."""
        if experience.iteration % self._every:
            return None
        found = [
            promised(better.reward - other.reward, self._weight) - self._judged(asked, better, other)
            for asked, better, other in preferred(experience)
        ]
        if len(found) < LEAST_PAIRS:
            return None
        return RewardGap(float(np.mean(found)), float(np.std(found, ddof=1) / math.sqrt(len(found))), len(found))

    def _judged(self, asked: str, better: Rollout, other: Rollout) -> float:
        """The share of annotators who prefer `better`; a tie counts half."""
        from tutti.judgements.crowds import generator_of, outcome

        rng = generator_of(self._seed, "gap", better.number, other.number)
        chosen = rng.choice(len(self._people), min(OVERLAP, len(self._people)), replace=False).tolist()
        verdicts = self._crowd.verdicts(
            self._people,
            chosen,
            asked,
            (better.text, other.text),
            ended=(better.stop == "end", other.stop == "end"),
            rng=rng,
            key=(self._seed, f"gap/{better.number}/{other.number}"),
        )
        return sum(outcome(score, is_left=is_left) for _, is_left, score in verdicts) / len(chosen)


def promised(difference: float, weight: float) -> float:
    """The probability that the better answer wins, by the difference of rewards: `weight` times that of scores."""
    return 1 / (1 + math.exp(-difference / weight))


def preferred(experience: Experience) -> Iterator[tuple[str, Rollout, Rollout]]:
    """Each prompt's answers in pairs, as (the prompt, the answer with the larger reward, the other one).

    An answer is in one pair at most, so that pairs are independent; equal texts and equal rewards are left out.
    """
    groups: dict[int, list[Rollout]] = {}
    for each in experience.rollouts:
        groups.setdefault(each.prompt, []).append(each)
    for prompt, answers in sorted(groups.items()):
        asked = experience.prompts[prompt].messages[-1].content
        for first, second in zip(answers[::2], answers[1::2], strict=False):
            if first.text != second.text and first.reward != second.reward:
                yield asked, *((first, second) if first.reward > second.reward else (second, first))
