"""GRPO as ranks run it: the same state for any number of ranks, and after a resume; causes of its end."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tests.numerics.gang import MODEL, Group, Tensors, on_ranks, snapshot
from tests.scale import SOAK
from tutti.corpus.conversations import rewards
from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.experience import Experience, Prompt
from tutti.corpus.conversations.rewards import Answered, Reward
from tutti.corpus.tokens.ledger import Ledger
from tutti.inference.engine import Completion, Request, Weights
from tutti.inference.parity import score
from tutti.model.chunks import Layout
from tutti.model.initial import initial_parameters
from tutti.model.plan import Plan, Shape
from tutti.model.policy import ClippedPolicy, PolicyLeaf
from tutti.model.programs.grpo import GrpoParameters, RewardFunction
from tutti.model.results import Outcome, Scalars
from tutti.model.spec import OptimizerSpec, SpecError, StepSpec
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.model.transformer import Transformer
from tutti.trainer.failures import RankFailure
from tutti.trainer.policies.judging import Judge, ScoreTexts
from tutti.trainer.policies.policydata import PolicyData
from tutti.trainer.policies.rolloutgroup import RolloutGroup
from tutti.trainer.policies.rollouts import Rollouts, Vocabulary

SETTINGS = GrpoParameters(
    prompts=6, group=4, tokens=8, minibatches=2, epochs=2, functions=(RewardFunction("length", "5"),)
)
TRAINING = Training(
    model=MODEL,
    optimizer=OptimizerSpec(peak_rate=3e-3, steps=12, weight_decay=0.0),
    step=StepSpec(leaves=6, rows=2, seed=7, length=16),
    dataset=f"blake3:{'1' * 64}",
    checkpoint_every=4,
    program="grpo",
    program_parameters=SETTINGS,
)
END = 3
PROMPTS = [
    Prompt((Message(Role.USER, f"p{n}"),), tuple(np.random.default_rng(n).integers(4, 320, 1 + n % 5).tolist()))
    for n in range(17)
]
LAYOUT = Layout(MODEL)
INITIAL = torch.cat([torch.from_numpy(initial_parameters(LAYOUT, chunk, 7)) for chunk in LAYOUT.chunks])
VOCABULARY = Vocabulary(END, MODEL.vocabulary, lambda tokens: " ".join(map(str, tokens)))


class FarAway(PolicyData):
    """Records log-probabilities that every token has left, further than the interval, as its advantage has it."""

    def leaves(self, ledger: Ledger, step: int, wanted: Sequence[int]) -> Mapping[int, PolicyLeaf]:
        made = super().leaves(ledger, step, wanted)
        for leaf in made.values():
            leaf.old[...] -= np.sign(leaf.advantages)
        return made


class ByPlace(Rollouts):
    """The control: draws are keyed by the place in a rank's task."""

    def _requests(self, owned: Sequence[int], prompts: Sequence[Prompt], first: int) -> list[Request]:
        made = super()._requests(owned, prompts, first)
        return [replace(request, number=place) for place, request in enumerate(made)]


@dataclass(frozen=True)
class Trained:
    state: Tensors
    scalars: Scalars
    experience: list[Experience]
    losses: list[str]
    metrics: list[dict[str, float]]


class Inexact(Rollouts):
    """Writes answers with parameters that are a little off those of training."""

    def _completions(
        self,
        rollout_group: RolloutGroup,
        weights: Weights,
        prompts: Sequence[Prompt],
        iteration: int,
        worked: Callable[[], None],
    ) -> list[Completion]:
        others = Weights(weights.digest, weights.vector * 1.0001)
        return super()._completions(rollout_group, others, prompts, iteration, worked)


def half(texts: Sequence[Sequence[int]], begins: Sequence[int]) -> npt.NDArray[np.float64]:
    """The share of even tokens in each answer."""
    answers = [text[begin:] for text, begin in zip(texts, begins, strict=True)]
    return np.array([np.mean([token % 2 == 0 for token in text]) for text in answers])


def trained(
    dp: int,
    *,
    until: int = 12,
    since: "Trained | None" = None,
    kind: type[Rollouts] = Rollouts,
    reads: type[PolicyData] = PolicyData,
    optimizer: OptimizerSpec = TRAINING.optimizer,
    settings: GrpoParameters = SETTINGS,
    model: ScoreTexts | None = half,
    every: int = TRAINING.checkpoint_every,
    step: StepSpec = TRAINING.step,
) -> Trained:
    training = replace(TRAINING, program_parameters=settings, optimizer=optimizer, checkpoint_every=every, step=step)

    def work(rank: int, group: Group) -> Trained:
        plan = Plan(LAYOUT, Shape(dp), training.step.leaves)
        me = RankStep(
            training.model,
            training.optimizer,
            training.step,
            plan,
            rank=rank,
            epoch=1,
            group=group,
            audit_every=2,
            objective=ClippedPolicy(),
        )
        if since is None:
            me.initialize()
        else:
            me.load(lambda chunk, tensor: memoryview(since.state[chunk, tensor]), since.scalars)
        rollouts = kind(training, settings, VOCABULARY, Judge(settings, model), INITIAL)
        data = reads(training, settings, PROMPTS, rollouts)
        ledger, found = data.first_ledger(), Trained({}, me.scalars(), [], [], [])
        for step in range(me.scalars().step + 1, until + 1):
            data.prepare(me, step)
            if data.experience is not None:
                found.experience.append(data.experience)
            result = me.run(step, data.leaves(ledger, step, me.leaves_needed(step)))
            assert result.outcome is Outcome.COMMITTED
            found.losses.append(result.loss.hex())
            found.metrics.append(data.metrics(me))
        return replace(found, state=snapshot(me), scalars=me.scalars())

    parts = on_ranks(dp, work)
    assert all(part.losses == parts[0].losses and part.metrics == parts[0].metrics for part in parts)
    return replace(parts[0], state={key: value for part in parts for key, value in part.state.items()})


@pytest.fixture(scope="module")
def alone() -> Trained:
    return trained(1)


@pytest.mark.parametrize("dp", [2, 3, 4])
def test_the_state_is_that_of_one_rank(alone: Trained, dp: int) -> None:
    together = trained(dp)
    assert together.state == alone.state
    assert together.losses == alone.losses
    assert [each.digest for each in together.experience] == [each.digest for each in alone.experience]
    assert together.metrics == alone.metrics


def test_an_entropy_bonus_gives_other_losses_and_the_same_state_on_two_ranks(alone: Trained) -> None:
    one, two = (trained(dp, until=4, settings=replace(SETTINGS, entropy=0.1)) for dp in (1, 2))
    assert one.state == two.state
    assert one.losses == two.losses != alone.losses[:4]


def test_control_draws_by_the_place_in_a_task_give_another_state() -> None:
    one, two = (trained(dp, until=4, kind=ByPlace) for dp in (1, 2))
    assert one.state != two.state


def test_a_job_that_is_resumed_after_an_iteration_makes_the_same_state(alone: Trained) -> None:
    part = trained(2, until=8)
    assert trained(3, since=part).state == alone.state


def test_a_state_inside_of_an_iteration_is_no_resume_point() -> None:
    with pytest.raises(AssertionError, match="step 6 is inside an iteration"):
        trained(1, since=trained(1, until=5), until=6)


def test_an_experience_holds_the_log_probabilities_of_its_policy(alone: Trained) -> None:
    first, last = alone.experience[0], alone.experience[-1]
    assert (first.iteration, first.step, last.iteration, last.step) == (0, 0, 2, 8)
    policy = Transformer(LAYOUT, INITIAL.clone(), compiled=False)

    def worst(experience: Experience) -> float:
        texts = [(*experience.prompts[each.prompt].tokens, *each.tokens) for each in experience.rollouts]
        rows = score(policy, texts, rows=TRAINING.step.rows, length=TRAINING.length)
        pairs = zip(rows, experience.rollouts, strict=True)
        return max(float(np.abs(row[-len(each.tokens) :] - each.old).max()) for row, each in pairs)

    assert worst(first) == 0.0
    assert worst(last) > 0.0
    assert all(np.array_equal(each.old, each.reference) for each in first.rollouts)
    assert alone.metrics[0]["kl"] == 0.0 < alone.metrics[8]["kl"]
    assert alone.metrics[0]["clip_fraction"] == 0.0
    assert [each["training_apart"] for each in alone.metrics[::4]] == [0.0, 0.0, 0.0]
    assert "decoding_apart" not in alone.metrics[0]  # no forward but that of training
    assert sorted(alone.metrics[1]) == ["clip_fraction"]
    assert {each.number for each in last.rollouts} == set(range(48, 72))


@pytest.mark.skipif(not SOAK, reason="a goal of one training, in rows 3 and 18 of `make soak`")
def test_the_policy_learns_what_is_rewarded() -> None:
    settings = replace(SETTINGS, kl=0.0, functions=(), epochs=1)
    found = trained(2, settings=settings, until=32, optimizer=OptimizerSpec(peak_rate=1e-2, steps=32))
    rewards = [each["reward_mean"] for each in found.metrics if "reward_mean" in each]
    assert sum(rewards[-4:]) > sum(rewards[:4])  # 2.87 and 2.11 on an AMD EPYC


def raising(answered: Answered) -> float:
    raise KeyError("no such key")


def hanging(answered: Answered) -> float:
    while True:
        time.sleep(60)


def backtracking(answered: Answered) -> float:
    """A regular expression that holds the interpreter for longer than anybody waits."""
    return rewards.matches("^(a+)+$")(replace(answered, text="a" * 64 + "!"))


def always(value: float) -> Reward:
    return lambda answered: value


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (raising, r"the reward function mine, for rollout 0: KeyError: 'no such key' "),
        (hanging, r"the reward function mine, for rollout 0: no answer within 0\.2 s"),
        (backtracking, r"the reward function mine, for rollout 0: no answer within 0\.2 s"),
        (always(float("nan")), "the reward function mine gave rollout 0 the reward nan; expected a number"),
        (always(float("inf")), "the reward function mine gave rollout 0 the reward inf; expected a number"),
        (always(0.5), "iteration 0: constant rewards: each of the 24 rollouts got 0.5"),
        (lambda answered: float(answered.prompt[0].content[1:]), "iteration 0: empty groups"),
    ],
)
def test_rewards_that_nothing_can_be_learned_from_end_the_job_with_their_cause(
    function: Reward, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewards, "FUNCTIONS", {"mine": lambda argument: function})
    settings = replace(SETTINGS, functions=(RewardFunction("mine"),), deadline=0.2)
    with pytest.raises(AssertionError, match=words.strip()):
        trained(1, settings=settings, model=None)


def test_a_reward_model_that_diverged_is_named() -> None:
    with pytest.raises(AssertionError, match="the reward model gave rollout 0 the reward nan"):
        trained(1, model=lambda texts, begins: np.full(len(texts), np.nan))


RANDOM = "{utility: {terms: [{worth: 1, ended: true}]}, kinds: [{name: random, share: 1, sharpness: [0, 0]}]}"
JUDGED = replace(SETTINGS, functions=(), crowd=RANDOM, annotators=5, gap_every=1)


def sums(texts: Sequence[Sequence[int]], begins: Sequence[int]) -> npt.NDArray[np.float64]:
    """Scores of answers that nobody else prefers."""
    return np.array([float(sum(text[begin:]) % 97) for text, begin in zip(texts, begins, strict=True)])


def test_fresh_judgements_of_answers_give_a_gap_which_is_equal_on_all_ranks() -> None:
    found = trained(2, settings=JUDGED, model=sums, until=4)
    assert 0.1 < found.metrics[0]["reward_gap"] < 0.9
    assert "reward_gap" not in found.metrics[1]


def test_a_reward_model_that_judges_do_not_follow_is_stopped() -> None:
    with pytest.raises(AssertionError, match=r"iteration 0: reward gap: of 1[0-2] pairs .*; expected 0\.1"):
        trained(1, settings=replace(JUDGED, stop_gap=0.1), model=sums)


def test_a_policy_that_leaves_its_reference_too_far_is_stopped() -> None:
    with pytest.raises(AssertionError, match=r"iteration 1: KL budget: the policy is .* nats an answer"):
        trained(1, settings=replace(SETTINGS, stop_kl=1e-6))


def test_a_step_in_which_everything_is_clipped_is_the_last() -> None:
    with pytest.raises(AssertionError, match=r"everything clipped: the ratio of each of the [0-9]+ tokens"):
        trained(1, reads=FarAway)


@pytest.mark.parametrize("dp", [1, 2])
def test_decoding_that_differs_from_training_ends_the_job(dp: int) -> None:
    with pytest.raises(AssertionError, match="log-probabilities of rollouts differ from those of training by up to"):
        trained(dp, until=1, kind=Inexact)


def test_where_no_decoding_is_exact_a_forward_gives_the_log_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("rollouts", "policydata"):  # as on a GPU
        monkeypatch.setattr(f"tutti.trainer.policies.{module}.parity_nats", lambda device: 0.25)
    told = trained(1, until=4, kind=Inexact).metrics[0]
    assert 0 < told["decoding_apart"] < 0.25
    assert told["training_apart"] == 0


def test_steps_and_leaves_that_do_not_fit_the_iterations_are_refused() -> None:
    rollouts = Rollouts(TRAINING, SETTINGS, VOCABULARY, Judge(SETTINGS, half), INITIAL)
    for training, prompts, words in (
        (replace(TRAINING, checkpoint_every=6), PROMPTS, "checkpoint_every is 6; expected a multiple of the 4 steps"),
        (replace(TRAINING, step=StepSpec(leaves=8, rows=2)), PROMPTS, "expected as many rows as rollouts"),
        (TRAINING, PROMPTS[:5], "5 prompts; expected at least 6"),
    ):
        with pytest.raises((SpecError, RankFailure), match=words):
            PolicyData(training, SETTINGS, prompts, rollouts)
    with pytest.raises(SpecError, match="up to 1,200,000 tokens an iteration; expected at most 1,048,576"):
        replace(SETTINGS, tokens=50_000)
    with pytest.raises(SpecError, match=r"GrpoParameters\.lag is 17"):
        replace(SETTINGS, lag=17)
    with pytest.raises(SpecError, match=r"GrpoParameters\.group is 1"):
        replace(SETTINGS, group=1)


BRIEF = replace(SETTINGS, minibatches=1, epochs=1)
"""An iteration is a step."""
LONG = {"every": 4, "until": 6}


class Stale(Rollouts):
    """Hands out the experience of the first iteration again."""

    def roll(self, step: RankStep, prompts: Sequence[Prompt], iteration: int) -> Experience:
        if iteration == 0:
            self.first = super().roll(step, prompts, iteration)
        return replace(self.first, iteration=iteration)


def brief(dp: int, lag: int, **changes: Any) -> Trained:
    step = replace(TRAINING.step, rows=4)
    settings = replace(BRIEF, lag=lag)
    return trained(dp, settings=settings, step=step, **{**LONG, **changes})


def test_with_a_lag_each_iteration_is_answered_by_the_policy_of_so_many_before_on_any_number_of_ranks() -> None:
    found = {lag: brief(1, lag) for lag in (0, 1, 2)}
    assert [each.step for each in found[0].experience] == [0, 1, 2, 3, 4, 5]
    assert [each.step for each in found[1].experience] == [0, 0, 1, 2, 4, 4]
    assert [each.step for each in found[2].experience] == [0, 0, 0, 1, 4, 4]
    assert len({tuple(sorted(each.state.items())) for each in found.values()}) == 3
    compared = {
        lag: [[name for name in told if name.endswith("_apart")] for told in each.metrics]
        for lag, each in found.items()
    }
    assert compared == {0: [["training_apart"]] * 6, 1: [["decoding_apart"]] * 6, 2: [["decoding_apart"]] * 6}
    assert {told["decoding_apart"] for lag in (1, 2) for told in found[lag].metrics} == {0.0}
    for lag in (1, 2):
        together = brief(3, lag)
        assert together.state == found[lag].state
        assert [each.digest for each in together.experience] == [each.digest for each in found[lag].experience]
        policies = {each.step: each.policy for each in found[lag].experience}
        assert all(policies[each.step] == each.policy for each in found[lag].experience)


def test_a_job_with_a_lag_that_is_resumed_at_a_checkpoint_needs_no_older_policy() -> None:
    whole, half = brief(1, 2), brief(2, 2, until=4)
    assert brief(1, 2, since=half).state == whole.state


def test_experience_that_is_staler_than_the_lag_is_refused() -> None:
    with pytest.raises(
        AssertionError, match=r"by the policy after step 0; expected iteration 2 by the policy after step 1"
    ):
        brief(1, 1, kind=Stale)
