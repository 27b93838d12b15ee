"""The gate over answers of a known utility: a reward model that likes long answers is found out, an honest one passes.

The heads are fitted in closed form to separate the two kinds of answers, which is what training would come to.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import talks
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import RealFiles
from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.keys import manifest_of
from tutti.corpus.conversations.conversations import Answer, Message, Role
from tutti.corpus.conversations.template import CHAT_1
from tutti.evaluation import rules
from tutti.evaluation.comparing import Pair, compare, paired
from tutti.evaluation.measuring import Folders, Measured, measure
from tutti.judgements import letters
from tutti.judgements.crowds import Crowd
from tutti.model.chunks import Layout
from tutti.model.initial import initial_parameters
from tutti.model.transformer import Transformer
from tutti.trainer.io.staging import Cache

MODEL = replace(talks.MODEL, context=64)
KNOWN: dict[str, Any] = {"tokenizer": talks.TOKENIZER.version, "template": CHAT_1.digest}
LIMITS = {"win": 0.5, "gap": 0.2, "kl": 15.0}
PROMPTS = 30


def plain(asked: str) -> str:
    """A mediocre answer: the letters, two of them exchanged."""
    words = asked.split()[:-1]
    return " ".join([words[1], words[0], *words[2:]])


def right(asked: str) -> str:
    return " ".join([*asked.split()[:-1], letters.THANKS])


def long(asked: str) -> str:
    return " ".join([plain(asked), *[letters.FILLER] * 5])


def answers(write: Callable[[str], str]) -> list[Answer]:
    rng = np.random.default_rng(3)
    found = []
    for number in range(PROMPTS):
        asked = letters.prompt(rng)
        text = write(asked)
        tokens = tuple(talks.TOKENIZER.encode(text).tolist())
        found.append(Answer((Message(Role.USER, asked),), number, text, tokens, "end"))
    return found


def rows(said: list[Answer]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens of prompts and answers, and which are an answer's."""
    renderer = CHAT_1.bind(talks.TOKENIZER)
    tokens = torch.zeros(len(said), MODEL.context + 1, dtype=torch.long)
    pooled = torch.zeros(len(said), MODEL.context, dtype=torch.bool)
    for row, each in enumerate(said):
        prompt = renderer.open(each.prompt).tolist()
        text = [*prompt, *each.tokens, talks.TOKENIZER.eos]
        tokens[row, : len(text)], pooled[row, len(prompt) : len(text)] = torch.tensor(text), True
    return tokens, pooled


def head(liked: list[Answer], other: list[Answer]) -> torch.Tensor:
    """The scalar head whose scores of liked answers are about 3 above those of the others (ridge regression)."""
    model = replace(MODEL, scalar_head=True)
    layout = Layout(model)
    vector = torch.cat([torch.from_numpy(initial_parameters(layout, each, talks.STEP.seed)) for each in layout.chunks])
    transformer, start = Transformer(layout, vector, compiled=False), layout.uses[-1].state_start
    states = []
    for said in (liked, other):
        tokens, pooled = rows(said)
        columns = []
        for unit in range(model.width):
            vector[start : start + model.width] = torch.nn.functional.one_hot(torch.tensor(unit), model.width)
            with torch.no_grad():
                columns.append(transformer.scores(tokens, torch.zeros_like(tokens), pooled))
        states.append(torch.stack(columns, 1))
    apart = states[0] - states[1]
    found: torch.Tensor = torch.linalg.solve(apart.T @ apart + 1e-3 * torch.eye(model.width), 3 * apart.sum(0))
    return found


@dataclass
class World:
    blobs: EmbeddedBlobs
    folder: Path
    base: talks.Base

    def folders(self, *named: talks.Base) -> list[Path]:
        cache = Cache(self.folder, self.blobs, RealFiles())
        return [cache.checkpoints({each.state_digest: manifest_of(each.name)})[0] for each in named]

    def measured(self, reward: talks.Base, pairs: list[Pair]) -> Measured:
        base, judge = self.folders(self.base, reward)
        return measure(Folders(base, base, judge), talks.TOKENIZER, pairs)

    def broken(self, reward: talks.Base, write: Callable[[str], str]) -> tuple[Measured, set[str]]:
        """What the models say of the answers, and the rules that they break."""
        pairs = paired(answers(plain), answers(write))
        judged = compare(pairs, Crowd(utility="letters@1"), annotators=20, overlap=3, seed=0)
        found = self.measured(reward, pairs)
        compared = rules.Compared("x", judged.wins.mean, judged.wins.low, found.promised, found.divergence)
        return found, {each.rule for each in rules.findings([compared], LIMITS) if not each.passed}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("gate")
    blobs = EmbeddedBlobs(folder / "blobs")
    return World(blobs, folder / "cache", talks.base(blobs, MODEL, **KNOWN))


def test_a_length_loving_reward_model_promises_much_and_its_policy_is_refused(world: World) -> None:
    fond = head(answers(long), answers(plain))
    reward = talks.base(world.blobs, replace(MODEL, scalar_head=True), "fond", fond, **KNOWN)
    found, broken = world.broken(reward, long)
    assert (found.promised > 0.9, found.preferred) == (True, 1.0)
    assert broken == {"win", "gap"}


def test_a_policy_whose_promise_fresh_judgements_keep_passes(world: World) -> None:
    honest = head(answers(right), answers(plain)) / 2
    reward = talks.base(world.blobs, replace(MODEL, scalar_head=True), "honest", honest, **KNOWN)
    found, broken = world.broken(reward, right)
    assert found.divergence == 0.0
    assert broken == set()


def test_a_model_that_cannot_promise_anything_is_refused(world: World) -> None:
    pairs = paired(answers(plain), answers(right))
    with pytest.raises(WorkFailed, match="has no scalar head; take a checkpoint of a stage `reward`"):
        world.measured(world.base, pairs)
    other = talks.base(world.blobs, replace(MODEL, scalar_head=True), "other", tokenizer=talks.TOKENIZER.version)
    with pytest.raises(WorkFailed, match="has another chat template"):
        world.measured(other, pairs)
