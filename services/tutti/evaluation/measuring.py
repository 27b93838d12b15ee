"""Answers measured by models, in a process of the pool: torch is imported there alone.

Promises: what a reward model promises, and how far the candidate is from the baseline, follow from the answers and the
checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.staged import StagedCheckpoint, open_staged
from tutti.corpus.conversations.conversations import Answer
from tutti.corpus.conversations.rendered import Renderer, TemplateError
from tutti.corpus.conversations.renderers import renderer_of
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.evaluation.comparing import Pair
from tutti.inference.errors import InferenceError
from tutti.inference.parameters import parameters_of
from tutti.native.arrays import np


@dataclass(frozen=True)
class Folders:
    """Staged checkpoints: whose answers were compared, and the reward model."""

    baseline: Path
    candidate: Path
    reward: Path


@dataclass(frozen=True)
class Measured:
    """`chances` are the probabilities that the candidate's answer is the better one, by pair, `promised` is their mean,
    and `preferred` the share of pairs in which it has the higher score; `divergence` is in nats an answer.
    """

    chances: tuple[float, ...]
    promised: float
    preferred: float
    divergence: float


def measure(folders: Folders, tokenizer: BytePairTokenizer, pairs: Sequence[Pair]) -> Measured:
    """Ask the reward model about both answers of each pair, and compare the two models along the candidate's answers.

    `tokenizer` is that of all three. Raises WorkFailed when they do not fit together, or one is damaged.
    """
    import torch

    from tutti.inference.scoring import divergences, rewards
    from tutti.model.transformer import Transformer

    try:
        baseline, candidate, reward = (
            open_staged(each) for each in (folders.baseline, folders.candidate, folders.reward)
        )
        _check(baseline, candidate, reward)
        renderer = renderer_of(reward.body.template, tokenizer)
        rows = reward.body.rows
        torch.set_num_threads(reward.body.threads)
        judge, policy, reference = (
            Transformer(each.body.layout, torch.from_numpy(parameters_of(each)), compiled=False)
            for each in (reward, candidate, baseline)
        )
        texts = [_tokens(renderer, each) for each in (*_of(pairs, candidate=True), *_of(pairs, candidate=False))]
        scores = rewards(judge, [text for text, _ in texts], [begin for _, begin in texts], rows=rows)
        margins = scores[: len(pairs)] - scores[len(pairs) :]
        own = texts[: len(pairs)]
        apart = divergences(policy, reference, [text for text, _ in own], [begin for _, begin in own], rows=rows)
    except (InferenceError, CheckpointError, TemplateError) as error:
        raise WorkFailed(str(error)) from error
    chances = 0.5 + 0.5 * np.tanh(margins / 2)
    return Measured(
        chances=tuple(chances.tolist()),
        promised=float(chances.mean()),
        preferred=float((0.5 + 0.5 * np.sign(margins)).mean()),
        divergence=float(apart.mean()),
    )


def _of(pairs: Sequence[Pair], *, candidate: bool) -> list[Answer]:
    return [pair.candidate if candidate else pair.baseline for pair in pairs]


def _tokens(renderer: Renderer, answer: Answer) -> tuple[list[int], int]:
    """The tokens of prompt and answer as in training, and where the answer begins."""
    prompt = renderer.open(answer.prompt).tolist()
    end = [renderer.end] if answer.stop == "end" else []
    return [*prompt, *answer.tokens, *end], len(prompt)


def _check(baseline: StagedCheckpoint, candidate: StagedCheckpoint, reward: StagedCheckpoint) -> None:
    """Raises WorkFailed."""
    name = reward.body.name
    if not reward.body.layout.model.scalar_head:
        raise WorkFailed(f"{name} has no scalar head; take a checkpoint of a stage `reward`")
    for each in (baseline, candidate):
        if each.body.template != reward.body.template:
            raise WorkFailed(
                f"{each.body.name} has another chat template than {name}; take a reward model that goes back to the "
                "same checkpoint"
            )
