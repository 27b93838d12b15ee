"""The batches of a policy: rollouts of an iteration, made at its first step and dealt to its leaves.

Promises: they follow from the state at the first step of the iteration, so a job that is resumed at the end of an
iteration makes the same ones again. Checkpoints are due there alone.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tutti.contracts.scheduler.v1 import (
    STOP_RULE_CONSTANT_REWARDS,
    STOP_RULE_EMPTY_GROUPS,
    STOP_RULE_EVERYTHING_CLIPPED,
    STOP_RULE_KL_BUDGET,
    STOP_RULE_REWARD_GAP,
)
from tutti.corpus.conversations.experience import Experience, Prompt
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.model.device import parity_nats
from tutti.model.groups import NOBODY, dealt
from tutti.model.policy import PolicyLeaf, Valued
from tutti.model.programs.grpo import GrpoParameters
from tutti.model.programs.ppo import PpoParameters
from tutti.model.spec import SpecError
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.trainer.failures import RankFailure, Reason, StopRuleReached
from tutti.trainer.policies.policylag import LaggedPolicy
from tutti.trainer.policies.rewardgap import RewardGap, RewardGaps
from tutti.trainer.policies.rolloutgroup import Split
from tutti.trainer.policies.rollouts import Rollouts, require_parity


class PolicyData:
    """Prompts of a dataset, and what the ranks make of them."""

    def __init__(
        self,
        training: Training,
        settings: GrpoParameters,
        prompts: Sequence[Prompt],
        rollouts: Rollouts,
        note: str = "",
    ) -> None:
        """Raises SpecError where steps, checkpoints and leaves do not fit the iterations."""
        step, updates = training.step, settings.updates
        for name, value, every in (
            ("optimizer.steps", training.steps, updates),
            ("checkpoint_every", training.checkpoint_every, updates),
        ):
            if value % every:
                raise SpecError(f"Training.{name} is {value}; expected a multiple of the {every} steps of an iteration")
        if settings.rollouts != settings.minibatches * step.leaves * step.rows:
            raise SpecError(
                f"an iteration has {settings.rollouts} rollouts and its {settings.minibatches} steps have "
                f"{step.leaves} leaves of {step.rows} rows; expected as many rows as rollouts"
            )
        if settings.prompts > len(prompts):
            raise RankFailure(
                Reason.DATA_REFUSED,
                f"{len(prompts)} prompts; expected at least {settings.prompts}, as many as an iteration takes: add "
                "prompts, or lower prompts_per_step",
            )
        self.note = note
        self._gaps = RewardGaps(settings, step.seed) if settings.crowd else None
        self._gap: RewardGap | None = None
        self._training, self._settings, self._prompts, self._rollouts = training, settings, prompts, rollouts
        self._experience: Experience | None = None
        self._summary: Mapping[str, float] = {}
        self._leaves: dict[int, PolicyLeaf] = {}

    @property
    def experience(self) -> Experience | None:
        """The rollouts for the current step; None unless it is the first of its iteration."""
        return self._fresh

    _fresh: Experience | None = None

    def first_ledger(self) -> Ledger:
        return Ledger((self._span(),))

    def prepare(self, step: RankStep, number: int) -> None:
        """Collective. Roll out at the first step of an iteration. Raises RankFailure."""
        iteration, update = divmod(number - 1, self._settings.updates)
        self._fresh = None
        if update == 0:
            made = self._rollouts.roll(step, self._asked(number), iteration)
            self._check_age(made, iteration)
            self._summary = made.summary()
            _check_signal(made, self._summary, self._settings)
            self._gap = self._gaps.of(made) if self._gaps else None
            _check_gap(self._gap, iteration, self._settings)
            self._experience = self._fresh = made
        if self._experience is None:
            raise RankFailure(
                Reason.STATE_REFUSED, f"step {number} is inside an iteration; expected to resume at the end of one"
            )

    def split(self, split: Split) -> None:
        """Let ranks of their own answer. Call it before the first step."""
        self._rollouts.split(split)

    def answer(self, number: int, worked: Callable[[], None]) -> None:
        """Collective. As a rank that does nothing else: answer for step `number`, the first of its iteration.

        Raises RankFailure.
        """
        self._rollouts.answer(self._asked(number), (number - 1) // self._settings.updates, worked)

    @property
    def updates(self) -> int:
        """Steps of an iteration."""
        return self._settings.updates

    def _asked(self, number: int) -> list[Prompt]:
        """The prompts of the iteration whose first step is `number`."""
        return [self._prompts[place] for place in self._span().samples(number - 1, 0).samples]

    def _check_age(self, made: Experience, iteration: int) -> None:
        """Raises RankFailure for experience of another iteration or policy than the lag says."""
        step = LaggedPolicy(self._training, self._settings).policy_of(iteration) * self._settings.updates
        if (made.iteration, made.step) != (iteration, step):
            raise RankFailure(
                Reason.STATE_REFUSED,
                f"experience of iteration {made.iteration} by the policy after step {made.step}; expected iteration "
                f"{iteration} by the policy after step {step}, with a lag of {self._settings.lag}",
            )

    def leaves(self, ledger: Ledger, step: int, wanted: Sequence[int]) -> Mapping[int, PolicyLeaf]:
        assert self._experience is not None
        settings, spec = self._settings, self._training.step
        iteration, update = divmod(step - 1, settings.updates)
        epoch, minibatch = divmod(update, settings.minibatches)
        kept = np.array([place for place, each in enumerate(self._experience.rollouts) if each.kept], np.int64)
        table = dealt(
            kept,
            group=settings.group,
            minibatches=settings.minibatches,
            leaves=spec.leaves,
            rows=spec.rows,
            key=(spec.seed, iteration, epoch),
        )
        self._leaves = {leaf: self._leaf(table[minibatch, leaf].tolist()) for leaf in wanted}
        return self._leaves

    def metrics(self, step: RankStep) -> dict[str, float]:
        """Collective. What is to be told of the step that was crossed, by name. Raises RankFailure."""
        own = [self._leaves[leaf].clipped for leaf in step.plan.leaves_of(step.rank)]
        counts = np.array([sum(each.clipped for each in own), sum(each.tokens for each in own)], np.int64)
        clipped, tokens = (int(each) for each in np.sum(step.share(counts, [2] * len(step.plan.ranks)), axis=0))
        if tokens and clipped == tokens:
            raise StopRuleReached(
                STOP_RULE_EVERYTHING_CLIPPED,
                f"everything clipped: the ratio of each of the {tokens} tokens of a step has left its interval; lower "
                "the learning rate, or raise clip",
                seen=1,
                limit=1,
            )
        apart = dict[str, float]()
        if self._fresh is not None and not self._settings.lag:
            own_apart = np.array([max((each.apart for each in own), default=0.0)])
            worst = float(np.max(step.share(own_apart, [1] * len(step.plan.ranks))))
            require_parity(worst, parity_nats(step.device))
            apart["training_apart"] = worst
        told = {"clip_fraction": clipped / tokens if tokens else 0.0}
        if self._fresh is None:
            return told
        gap = {"reward_gap": self._gap.value} if self._gap else {}
        if self._rollouts.apart is not None:
            apart["decoding_apart"] = self._rollouts.apart
        return {**self._summary, **gap, **apart, **told}

    def _span(self) -> Span:
        """The prompts of each iteration, whose steps share them."""
        share = DatasetShare(self._training.dataset, sequences=len(self._prompts), weight=1, start=0)
        settings = self._settings
        return Span(0, (share,), self._training.step.seed, 1, settings.prompts, every=settings.updates)

    def _leaf(self, places: Sequence[int]) -> PolicyLeaf:
        assert self._experience is not None
        rows, length = len(places), self._training.length
        tokens = np.zeros((rows, length + 1), np.int64)
        valid = np.zeros((rows, length), np.bool_)
        old, reference, advantages, values, returns = (np.zeros((rows, length), np.float32) for _ in range(5))
        for row, place in enumerate(places):
            if place == NOBODY:
                continue
            rollout = self._experience.rollouts[place]
            prompt = self._experience.prompts[rollout.prompt].tokens
            text = (*prompt, *rollout.tokens)
            tokens[row, : len(text)] = text
            answer = slice(len(prompt) - 1, len(text) - 1)
            valid[row, answer], advantages[row, answer] = True, rollout.advantage
            old[row, answer], reference[row, answer] = rollout.old, rollout.reference
            if (credit := rollout.credit) is not None:
                advantages[row, answer], values[row, answer] = credit.advantages, credit.values
                returns[row, answer] = credit.returns
        settings, valued = self._settings, None
        if isinstance(settings, PpoParameters):
            valued = Valued(values, returns, clip=settings.value_clip, weight=settings.value_weight)
        return PolicyLeaf(
            tokens,
            np.zeros_like(tokens),
            valid,
            old,
            reference,
            advantages,
            clip=settings.clip,
            kl=settings.kl,
            prompt=max(len(each.tokens) for each in self._experience.prompts),
            answer=settings.tokens,
            valued=valued,
            entropy=settings.entropy,
        )


def _check_signal(experience: Experience, told: Mapping[str, float], settings: GrpoParameters) -> None:
    """Raises StopRuleReached where there is nothing to learn from, or the policy has moved too far."""
    rewards = {each.reward for each in experience.rollouts}
    where = f"iteration {experience.iteration}"
    if len(rewards) == 1:
        raise StopRuleReached(
            STOP_RULE_CONSTANT_REWARDS,
            f"{where}: constant rewards: each of the {len(experience.rollouts)} rollouts got {rewards.pop():g}",
            seen=1,
            limit=2,
        )
    if not any(each.kept for each in experience.rollouts):
        raise StopRuleReached(
            STOP_RULE_EMPTY_GROUPS,
            f"{where}: empty groups: the rewards of no group differ; raise group or prompts_per_step",
            seen=0,
            limit=1,
        )
    if 0 < settings.stop_kl < told["kl"]:
        raise StopRuleReached(
            STOP_RULE_KL_BUDGET,
            f"{where}: KL budget: the policy is {told['kl']:.3g} nats an answer off the reference; expected "
            f"{settings.stop_kl:g}",
            seen=told["kl"],
            limit=settings.stop_kl,
        )


def _check_gap(gap: RewardGap | None, iteration: int, settings: GrpoParameters) -> None:
    """Raises StopRuleReached where judges certainly do not follow the reward model."""
    if gap is not None and settings.stop_gap and gap.low > settings.stop_gap:
        raise StopRuleReached(
            STOP_RULE_REWARD_GAP,
            f"iteration {iteration}: reward gap: of {gap.pairs} pairs of answers the reward model promises "
            f"{gap.value:.3g} more wins a pair than judges give, at least {gap.low:.3g}; expected "
            f"{settings.stop_gap:g}",
            seen=gap.low,
            limit=settings.stop_gap,
        )
