"""The parameters of group-relative policy optimisation (Shao et al. 2024)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tutti.model.spec import Recorded, SpecError
from tutti.records.records import later

MOST_TOKENS = 1 << 20
"""Maximum size of an iteration: a rank sends its experience to its agent in one message."""


MOST_LAG = 16


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
    """An iteration rolls `group` answers of at most `tokens` tokens to each of `prompts` prompts, at temperature 1.

    Then come `epochs` passes over them, each of `minibatches` optimizer steps. `clip` is the half width of the interval
    of ratios, `kl` the coefficient of the KL penalty a token. The reward is the sum of `reward_weight` times that of
    the reward model, where there is one, and of the weighted `functions`, each of which has `deadline` seconds an
    answer. `stop_kl` is the KL divergence from the reference, in nats an answer, that ends the job; 0 for none.
    Rollouts are made by the policy of `lag` iterations before, but by none that is older than the last checkpoint.
    Advantages are not scaled up as if rewards that differ by less than `least_spread` differed by more. `entropy` is
    the coefficient of the entropy bonus a token; 0 for none.

    `annotators` of `crowd`, a simulated one as YAML, judge pairs of answers in every `gap_every`-th iteration; none do
    if it is empty. `stop_gap` is the gap between the wins that the reward model promises and the judged ones that ends
    the job; 0 for none.
    """

    prompts: int
    group: int
    tokens: int
    minibatches: int = 1
    epochs: int = 1
    clip: float = 0.2
    kl: float = 0.1
    reward_weight: float = 1.0
    functions: tuple[RewardFunction, ...] = ()
    stop_kl: float = 0.0
    deadline: float = 5.0
    lag: int = 0
    least_spread: float = later(0.0, since="0.2")
    entropy: float = later(0.0, since="0.2")
    crowd: str = later("", since="0.2")
    annotators: int = later(0, since="0.2")
    gap_every: int = later(0, since="0.2")
    stop_gap: float = later(0.0, since="0.2")

    LEAST_GROUP: ClassVar[int] = 2
    WHOLE: ClassVar[bool] = True
    """Rollouts need all parameters on each rank."""

    def __post_init__(self) -> None:
        self._check_types()
        sizes = ("prompts", "tokens", "minibatches", "epochs", "deadline")
        self._require(**{name: (getattr(self, name) > 0, "a positive number") for name in sizes})
        self._require(
            group=(
                self.group >= self.LEAST_GROUP,
                f"{self.LEAST_GROUP} or more: an advantage is relative to the other answers of the group",
            ),
            clip=(0 < self.clip < 1, "above 0, below 1"),
            kl=(self.kl >= 0, "0 or more"),
            least_spread=(self.least_spread >= 0, "0 or more"),
            entropy=(self.entropy >= 0, "0 or more"),
            stop_gap=(0 <= self.stop_gap < 1, "0 to 1; 0 for no limit"),
            annotators=((self.annotators > 0) == bool(self.crowd), "a positive number with a crowd, 0 without one"),
            gap_every=((self.gap_every > 0) == bool(self.crowd), "a positive number with a crowd, 0 without one"),
            stop_kl=(self.stop_kl >= 0, "0 or more; 0 for no limit"),
            lag=(0 <= self.lag <= MOST_LAG, f"0 to {MOST_LAG}: each rank keeps as many copies of the parameters"),
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
