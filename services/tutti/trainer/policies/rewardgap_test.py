"""The gap of a reward model: small if the crowd agrees with it, large if it does not."""

from collections.abc import Callable

import numpy as np
import pytest

from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.experience import Experience, Prompt, Rollout
from tutti.judgements import letters
from tutti.model.programs.grpo import GrpoParameters
from tutti.trainer.failures import RankFailure
from tutti.trainer.policies.rewardgap import LEAST_PAIRS, RewardGap, RewardGaps, promised

SHARP = "{utility: letters@1, kinds: [{name: sharp, share: 1, sharpness: [2, 2]}]}"
SETTINGS = GrpoParameters(
    prompts=100, group=4, tokens=8, reward_weight=0.5, crowd=SHARP, annotators=10, gap_every=2, stop_gap=0.2
)
Score = Callable[[str, str], float]


def experience(score: Score, *, prompts: int = 100, iteration: int = 0, texts: int = 4) -> Experience:
    """Answers of a middling writer, `texts` different ones of four to a prompt, rewarded by a score."""
    rng, asked, rollouts = np.random.default_rng(5), list[Prompt](), list[Rollout]()
    none = np.zeros(0, np.float32)
    for number in range(prompts):
        text = letters.prompt(rng)
        asked.append(Prompt((Message(Role.USER, text),), ()))
        answers = [letters.demonstration(text, rng) for _ in range(texts)]
        for place in range(4):
            answer = answers[place % texts]
            reward = 0.5 * score(text, answer)
            rollouts.append(Rollout(4 * number + place, number, (), none, none, answer, "end", reward, 0.0, True))
    return Experience(iteration, 0, "", asked, rollouts)


def gap(score: Score, **changes: int) -> RewardGap | None:
    return RewardGaps(SETTINGS, seed=3).of(experience(score, **changes))


def test_a_reward_model_that_judges_as_the_crowd_has_no_gap() -> None:
    found = gap(lambda asked, answer: 2 * letters.utility(asked, answer))
    assert found is not None
    assert found.pairs > 100
    assert abs(found.value) < 0.1
    assert found.low < 0.05


@pytest.mark.parametrize(
    "score",
    [lambda asked, answer: -2 * letters.utility(asked, answer), lambda asked, answer: 10 * len(answer)],
    ids=["the contrary", "length"],
)
def test_a_reward_model_that_the_crowd_contradicts_has_a_gap(score: Score) -> None:
    found = gap(score)
    assert found is not None
    assert found.low > 0.2


def test_a_gap_follows_from_the_experience_alone() -> None:
    assert gap(letters.utility) == gap(letters.utility)


@pytest.mark.parametrize("changes", [{"iteration": 1}, {"prompts": LEAST_PAIRS // 2 - 1}, {"texts": 1}])
def test_an_iteration_that_is_not_due_or_has_too_few_pairs_has_none(changes: dict[str, int]) -> None:
    assert gap(letters.utility, **changes) is None


def test_a_promise_is_the_sigmoid_of_the_difference_of_scores() -> None:
    assert promised(0.0, 0.5) == 0.5
    assert promised(0.5, 0.5) == pytest.approx(1 / (1 + np.exp(-1)))
    assert promised(1e9, 1.0) == 1.0


def test_a_crowd_that_cannot_be_simulated_is_refused() -> None:
    settings = GrpoParameters(prompts=1, group=2, tokens=8, crowd="utility: beauty", annotators=2, gap_every=1)
    with pytest.raises(RankFailure, match="the crowd cannot be simulated"):
        RewardGaps(settings, seed=0)
