"""Rollouts: all ranks of a job write answers with the policy at hand, score them, and agree on what to train on.

Promises: what an iteration trains on follows from the state, the training and global numbers, for any number of ranks.
A rollout's log-probabilities are those of exact decoding, which has the bits of training's forward. The first step of
an iteration compares all of them; with a lag, a block of them is computed by a forward, another one each time. On GPUs
no decoding has these bits: a forward computes the log-probabilities of all rollouts again. Wherever a forward does so,
`apart` says by how much those of decoding differ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tutti.checkpoints.digests import vector_digest
from tutti.corpus.conversations.experience import STOPS, Credit, Experience, Prompt, Rollout
from tutti.corpus.conversations.rewards import Answered
from tutti.inference.engine import Completion, Mode, Request, Weights, generate
from tutti.inference.errors import InferenceError
from tutti.inference.limits import Limits, Stop
from tutti.inference.parity import score
from tutti.inference.sampling import Sampling
from tutti.inference.scoring import block_rows, of_answers
from tutti.inference.slotengine import SlotEngine
from tutti.model.answers import Placed
from tutti.model.chunks import Layout
from tutti.model.device import parity_nats
from tutti.model.groups import advantages
from tutti.model.programs.grpo import GrpoParameters
from tutti.model.spec import ModelSpec
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.model.transformer import Transformer
from tutti.trainer.failures import RankFailure, Reason
from tutti.trainer.policies.judging import Judge
from tutti.trainer.policies.policylag import LaggedPolicy
from tutti.trainer.policies.rolloutgroup import Colocated, RolloutGroup, Split

Floats = npt.NDArray[np.float32]
MOST_SLOTS = 64


@dataclass(frozen=True)
class Vocabulary:
    """The properties of the tokenizer that rollouts need. Ids of `size` and above have no text, `reserved` ones open
    turns: neither is sampled.
    """

    end: int
    size: int
    decode: Callable[[Sequence[int]], str]
    reserved: tuple[int, ...] = ()


@dataclass(frozen=True)
class Credited:
    """The advantages of a rollout: one for all of its tokens, or one per token by a value model."""

    advantage: float
    kept: bool
    credit: Credit | None = None


def layout_of_reference(model: ModelSpec) -> Layout:
    """The layout of the checkpoint that a policy is kept close to: that of the policy without a value model."""
    return Layout(replace(model, value_model=False))


class Rollouts:
    """Makes the experience of iterations, on one rank of a gang."""

    def __init__(
        self, training: Training, settings: GrpoParameters, vocabulary: Vocabulary, judge: Judge, reference: Tensor
    ) -> None:
        """`reference` is float32 [elements of layout_of_reference]: the parameters that the policy is kept close to."""
        self._training, self._settings, self._vocabulary, self._judge = training, settings, vocabulary, judge
        self._limits = Limits(
            tokens=settings.tokens, end=vocabulary.end, vocabulary=vocabulary.size, never=vocabulary.reserved
        )
        self._reference, self._behind = reference, LaggedPolicy(training, settings)
        self.apart: float | None = None
        """The largest difference in nats between decoding and a forward in the newest iteration; None without one."""
        self._split: Split | None = None
        self._engine: SlotEngine | None = None
        self._transformers: tuple[Transformer, Transformer] | None = None

    def split(self, split: Split) -> None:
        """Let ranks of their own answer. Call it before the first iteration."""
        self._split = split

    def answer(self, prompts: Sequence[Prompt], iteration: int, worked: Callable[[], None]) -> None:
        """Collective. Answer as one of the ranks that do nothing else. Raises RankFailure."""
        assert self._split is not None
        self._completions(self._split, self._split.take(iteration), prompts, iteration, worked)

    def roll(self, step: RankStep, prompts: Sequence[Prompt], iteration: int) -> Experience:
        """Collective. Raises RankFailure."""
        settings, layout = self._settings, step.plan.layout
        vector = self._behind.parameters(iteration, step.parameters)
        digest = vector_digest(layout, vector.float().cpu().numpy())
        weights, rollout_group = Weights(digest, vector), self._split or Colocated(step)
        rollout_group.give(iteration, weights)
        completions = self._completions(rollout_group, weights, prompts, iteration, step.worked)
        exact = parity_nats(step.device) == 0.0
        texts = [(*prompts[place // settings.group].tokens, *each.tokens) for place, each in enumerate(completions)]
        policy, reference = self._scorers(step, vector)
        begins = [len(text) - len(each.tokens) for text, each in zip(texts, completions, strict=True)]
        old = [each.logprobs for each in completions]
        if not exact:
            old = self._scored(step, policy, texts, begins, policy.answer_log_probabilities)
            self.apart = _apart([each.logprobs for each in completions], old)
        elif settings.lag:
            self._check_parity(step, policy, completions, texts, begins, iteration)
        answers = [self._answered(prompts[place // settings.group], each) for place, each in enumerate(completions)]
        rewards = self._rewards(step, [each.number for each in completions], answers, texts, begins)
        credited = self._credited(step, policy, texts, begins, rewards)
        references = self._scored(step, reference, texts, begins, reference.answer_log_probabilities)
        return Experience(
            iteration=iteration,
            step=self._behind.policy_of(iteration) * settings.updates,
            policy=digest,
            prompts=prompts,
            rollouts=[
                Rollout(
                    number=each.number,
                    prompt=place // settings.group,
                    tokens=each.tokens,
                    old=old[place],
                    reference=references[place],
                    text=answers[place].text,
                    stop=str(each.stop),
                    reward=float(rewards[place]),
                    advantage=credited[place].advantage,
                    kept=credited[place].kept,
                    credit=credited[place].credit,
                )
                for place, each in enumerate(completions)
            ],
        )

    def _credited(
        self,
        step: RankStep,
        policy: Transformer,
        texts: Sequence[Sequence[int]],
        begins: Sequence[int],
        rewards: npt.NDArray[np.float64],
    ) -> list[Credited]:
        """The advantages of each rollout: here, relative to the others of its group."""
        table, kept = advantages(rewards.reshape(-1, self._settings.group), self._settings.least_spread)
        return [Credited(float(each), bool(keep)) for each, keep in zip(table.flat, kept.flat, strict=True)]

    def _completions(
        self,
        rollout_group: RolloutGroup,
        weights: Weights,
        prompts: Sequence[Prompt],
        iteration: int,
        worked: Callable[[], None],
    ) -> list[Completion]:
        """Every completion, in the order of numbers; each process of the group makes those of its prompts."""
        group = self._settings.group
        first = iteration * len(prompts) * group
        owners = [
            [p for p in range(len(prompts)) if p % rollout_group.size == place] for place in range(rollout_group.size)
        ]
        own: list[Completion] = []
        if rollout_group.place is not None:
            try:
                engine = self._started(rollout_group.size, weights)
                requests = self._requests(owners[rollout_group.place], prompts, first)
                sampling = Sampling(seed=self._training.step.seed)
                own = generate(engine, requests, sampling, self._limits, advanced=lambda _: worked())
            except InferenceError as error:
                raise RankFailure(
                    Reason.ROLLOUT_FAILED, f"iteration {iteration} cannot be rolled out: {error}"
                ) from error
        width = self._settings.tokens
        integers = np.zeros((len(own), 2 + width), np.int64)
        floats = np.zeros((len(own), width), np.float32)
        for row, each in enumerate(own):
            count = len(each.tokens)
            integers[row, :2] = count, STOPS.index(str(each.stop))
            integers[row, 2 : 2 + count], floats[row, :count] = each.tokens, each.logprobs
        counts = [len(each) * group for each in owners]
        tokens = rollout_group.share(integers.ravel(), [count * (2 + width) for count in counts])
        logprobs = rollout_group.share(floats.ravel(), [count * width for count in counts])
        found: dict[int, Completion] = {}
        for prompt_numbers, one, other in zip(owners, tokens, logprobs, strict=True):
            numbers = [first + prompt * group + k for prompt in prompt_numbers for k in range(group)]
            rows = zip(numbers, one.reshape(-1, 2 + width), other.reshape(-1, width), strict=True)
            for number, values, chances in rows:
                length = int(values[0])
                found[number] = Completion(
                    number, tuple(values[2 : 2 + length].tolist()), chances[:length].copy(), Stop(STOPS[values[1]])
                )
        return [found[number] for number in sorted(found)]

    def _requests(self, owned: Sequence[int], prompts: Sequence[Prompt], first: int) -> list[Request]:
        """A rank's rollouts of some prompts, numbered over the whole job: draws are keyed by these numbers."""
        group = self._settings.group
        return [Request(first + prompt * group + k, prompts[prompt].tokens) for prompt in owned for k in range(group)]

    def _started(self, size: int, weights: Weights) -> SlotEngine:
        """The engine with the policy that answers; its vector is always the same tensor. Raises InferenceError."""
        if self._engine is None:
            exact = parity_nats(weights.vector.device) == 0.0
            mine = -(-self._settings.prompts // size) if exact else self._settings.prompts
            engine = SlotEngine(
                Layout(self._training.model),
                rows=self._training.step.rows,
                mode=Mode.EXACT if exact else Mode.FAST,
                slots=min(MOST_SLOTS, mine * self._settings.group),  # on GPUs the bits depend on their number
                length=self._training.length,
            )
            engine.start(weights)
            self._engine = engine
        else:
            self._engine.swap(weights)
        return self._engine

    def _scorers(self, step: RankStep, vector: Tensor) -> tuple[Transformer, Transformer]:
        if self._transformers is None:
            layout = step.plan.layout
            reference = self._reference.to(device=step.parameters.device, dtype=step.parameters.dtype)
            self._transformers = (
                Transformer(layout, vector, compiled=False),
                Transformer(layout_of_reference(layout.model), reference, compiled=False),
            )
        return self._transformers

    def _scored(
        self,
        step: RankStep,
        transformer: Transformer,
        texts: Sequence[Sequence[int]],
        begins: Sequence[int],
        forward: Callable[[Placed], Tensor],
    ) -> list[Floats]:
        """The scores of each answer's tokens; each rank scores its share of the blocks."""
        width, length = self._settings.tokens, self._training.length
        rows = block_rows(step.step_spec.rows, length)
        owners, longest = _blocks(len(texts), rows, len(step.plan.ranks)), max(begins)
        own = owners[step.rank]
        table = np.zeros((len(own), width), np.float32)
        scored = of_answers(
            transformer,
            [texts[place] for place in own],
            [begins[place] for place in own],
            forward,
            rows=rows,
            length=length,
            prompt=longest,
            answer=width,
            worked=step.worked,
        )
        for row, scores in enumerate(scored):
            table[row, : len(scores)] = scores
        shared = step.share(table.ravel(), [len(each) * width for each in owners])
        found: dict[int, Floats] = {}
        for places, part in zip(owners, shared, strict=True):
            for place, values in zip(places, part.reshape(-1, width), strict=True):
                found[place] = values[: len(texts[place]) - begins[place]].copy()
        return [found[place] for place in range(len(texts))]

    def _rewards(
        self,
        step: RankStep,
        numbers: Sequence[int],
        answers: Sequence[Answered],
        texts: Sequence[Sequence[int]],
        begins: Sequence[int],
    ) -> npt.NDArray[np.float64]:
        owners = _blocks(len(texts), step.step_spec.rows, len(step.plan.ranks))
        own = owners[step.rank]
        made = self._judge.rewards(
            [numbers[p] for p in own],
            [answers[p] for p in own],
            [texts[p] for p in own],
            [begins[p] for p in own],
        )
        shared = step.share(made, [len(each) for each in owners])
        found = np.zeros(len(texts))
        for places, part in zip(owners, shared, strict=True):
            found[places] = part
        return found

    def _check_parity(
        self,
        step: RankStep,
        policy: Transformer,
        completions: Sequence[Completion],
        texts: Sequence[Sequence[int]],
        begins: Sequence[int],
        iteration: int,
    ) -> None:
        """Collective. Raises RankFailure where sampling has computed other log-probabilities than training does.

        Each rank compares one block of the answers that it wrote, another one in each iteration.
        """
        group, rows, ranks = self._settings.group, step.step_spec.rows, len(step.plan.ranks)
        own = [place for place in range(len(texts)) if place // group % ranks == step.rank]
        first = iteration * rows % len(own) if own else 0
        places = own[first : first + rows]
        scores = score(policy, [texts[p] for p in places], rows=rows, length=self._training.length)
        apart = [
            float(np.abs(completions[place].logprobs - row[begins[place] - 1 :]).max())
            for place, row in zip(places, scores, strict=True)
        ]
        shared = step.share(np.array([max(apart, default=0.0)]), [1] * ranks)
        self.apart = float(np.max(shared))
        require_parity(self.apart, parity_nats(step.device))

    def _answered(self, prompt: Prompt, completion: Completion) -> Answered:
        tokens = [token for token in completion.tokens if token != self._vocabulary.end]
        text = self._vocabulary.decode(tokens)
        return Answered(prompt.messages, text, len(tokens), str(completion.stop), prompt.expected)


def require_parity(worst: float, most: float) -> None:
    """Raises RankFailure where log-probabilities of rollouts are `worst` nats apart from those of training.

    `most` is 0 where they must have the same bits.
    """
    if not worst <= most:
        expected = f"at most {most:g} nats" if most else "equal bits"
        raise RankFailure(
            Reason.PARITY_LOST,
            f"log-probabilities of rollouts differ from those of training by up to {worst:.1e} nats; expected "
            f"{expected}: is a processor or a library of this node defective?",
        )


def _apart(ones: Sequence[Floats], others: Sequence[Floats]) -> float:
    return max((float(np.abs(one - other).max(initial=0)) for one, other in zip(ones, others, strict=True)), default=0)


def _blocks(count: int, rows: int, ranks: int) -> list[list[int]]:
    """The places that each rank scores: whole blocks of `rows`."""
    return [[place for place in range(count) if place // rows % ranks == rank] for rank in range(ranks)]
