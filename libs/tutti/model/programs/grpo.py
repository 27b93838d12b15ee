"""The parameters of group-relative policy optimisation (Shao et al. 2024)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tutti.model.parameter import MOST, parameter
from tutti.model.spec import Recorded, SpecError
from tutti.records.records import later

MOST_TOKENS = 1 << 20
"""Maximum size of an iteration: a rank sends its experience to its agent in one message."""
MOST_LAG = 16
"""Each rank keeps as many copies of the parameters."""


@dataclass(frozen=True)
class RewardFunction(Recorded):
    """A function of `tutti.corpus.conversations.rewards` by name, its argument, and the weight of its reward."""

    name: str
    argument: str = ""
    weight: float = 1.0

    def __post_init__(self) -> None:
        self._check_types()
        self._require(name=(self.name != "", "the name of a reward function"))


@dataclass(frozen=True)
class GrpoParameters(Recorded):
    """An iteration rolls `group` answers to each of `prompts` prompts, at temperature 1.

    Then come `epochs` passes over them, each of `minibatches` optimizer steps. The reward is the sum of `reward_weight`
    times that of the reward model, where there is one, and of the weighted `functions`. Rollouts are made by the policy
    of `lag` iterations before, but by none that is older than the last checkpoint.

    `annotators` of `crowd`, a simulated one as YAML, judge pairs of answers in every `gap_every`-th iteration; none do
    if it is empty.
    """

    prompts: int = parameter(16, "prompts per iteration", key="prompts_per_step", ge=1, lt=MOST)
    group: int = parameter(4, "answers per prompt, whose rewards are compared", ge=2, lt=MOST)
    tokens: int = parameter(64, "maximum number of tokens of an answer", ge=1, lt=MOST)
    minibatches: int = parameter(1, "optimizer steps per pass over the answers of an iteration", ge=1, lt=MOST)
    epochs: int = parameter(1, "passes over the answers of an iteration", ge=1, lt=MOST)
    clip: float = parameter(0.2, "half width of the clipping interval of ratios around 1", gt=0, lt=1)
    kl: float = parameter(0.1, "coefficient of the KL penalty per token, relative to the reference", ge=0)
    reward_weight: float = parameter(1.0, "weight of the reward model in the sum")
    functions: tuple[RewardFunction, ...] = ()
    stop_kl: float = parameter(
        0.0, "KL divergence from the reference, in nats per answer, at which training stops; 0: no limit", ge=0
    )
    deadline: float = parameter(5.0, "timeout in seconds of a reward function for one answer", gt=0, le=60)
    lag: int = parameter(
        0, "iterations between the policy that generates answers and the one that is trained", ge=0, le=MOST_LAG
    )
    least_spread: float = parameter(
        0.0,
        "standard deviation of rewards below which their differences count as noise and are not scaled up",
        ge=0,
        since="0.2",
    )
    entropy: float = parameter(
        0.0,
        "coefficient of the entropy bonus per token, which keeps answers varied; 0: no bonus",
        ge=0,
        since="0.2",
    )
    crowd: str = later("", since="0.2")
    annotators: int = later(0, since="0.2")
    gap_every: int = later(0, since="0.2")
    stop_gap: float = parameter(
        0.0, "gap between promised and judged wins at which training stops; 0: no limit", ge=0, lt=1, since="0.2"
    )

    WHOLE: ClassVar[bool] = True
    """Rollouts need all parameters on each rank."""

    def __post_init__(self) -> None:
        self._check_types()
        self._require(
            annotators=((self.annotators > 0) == bool(self.crowd), "a positive number with a crowd, 0 without one"),
            gap_every=((self.gap_every > 0) == bool(self.crowd), "a positive number with a crowd, 0 without one"),
        )
        if self.crowd and (self.functions or self.group < 2 or self.reward_weight <= 0):
            raise SpecError(
                "GrpoParameters.crowd judges pairs of answers by a reward model; expected a group of 2 or more, no "
                "reward functions, and a reward_weight above 0"
            )
        if self.stop_gap and not self.crowd:
            raise SpecError(f"GrpoParameters.stop_gap is {self.stop_gap}; expected 0 without a crowd that judges")
        if self.rollouts % self.minibatches:
            raise SpecError(
                f"GrpoParameters.minibatches is {self.minibatches}; expected a divisor of {self.rollouts} rollouts "
                f"({self.prompts} prompts x {self.group} answers)"
            )

        if self.rollouts * self.tokens > MOST_TOKENS:
            raise SpecError(
                f"GrpoParameters has up to {self.rollouts * self.tokens:,} tokens an iteration; expected at most "
                f"{MOST_TOKENS:,}, which its experience can hold: lower prompts, group or tokens"
            )

    @property
    def rollouts(self) -> int:
        """Rollouts of an iteration."""
        return self.prompts * self.group

    @property
    def updates(self) -> int:
        """Optimizer steps of an iteration."""
        return self.epochs * self.minibatches

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        functions = tuple(RewardFunction.from_dict(each) for each in value.get("functions", ()))
        return super().from_dict({**value, "functions": functions})
