"""A checkpoint whose tokenizer lacks role tokens, extended before it is tuned."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import talks
from tests.numerics.gang import Group, Tensors, on_ranks, snapshot
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.checkpoints.staged import StagedCheckpoint, open_staged
from tutti.corpus.conversations.template import CHAT_1
from tutti.inference.parameters import parameters_of
from tutti.model.chunks import Layout
from tutti.model.plan import Plan, Shape
from tutti.model.spec import ModelSpec, SpecError
from tutti.model.step import RankStep
from tutti.model.training import APPENDED_1, Conversion, Training
from tutti.model.transformer import Transformer
from tutti.records.manifest import Kind
from tutti.tokenization.bpe import train_bpe
from tutti.trainer.batches.staged import Staged
from tutti.trainer.programs import PROGRAMS
from tutti.trainer.rank.initial import initial_of

PLAIN = train_bpe(["a b c d e f g h"] * 2, vocabulary=268 - len(CHAT_1.tokens))
CONVERSION = Conversion(PLAIN.version, PLAIN.vocabulary, len(CHAT_1.tokens))
MODELS: list[dict[str, Any]] = [{}, {"tied": True}, *({"vocabulary": PLAIN.vocabulary + spare} for spare in (2, 3, 9))]
END, ADDED = PLAIN.eos, slice(PLAIN.eos, PLAIN.eos + len(CHAT_1.tokens))


@pytest.fixture(scope="module", params=MODELS, ids=str)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "World":
    torch.set_num_threads(1)
    before = replace(talks.MODEL, vocabulary=PLAIN.vocabulary)
    return World(tmp_path_factory.mktemp("world"), replace(before, **request.param))


class World:
    """A checkpoint of a plain tokenizer, and a training that extends it."""

    def __init__(self, folder: Path, before: ModelSpec) -> None:
        blobs = EmbeddedBlobs(folder / "blobs")
        base = talks.base(blobs, before, tokenizer=PLAIN.version)
        key, digest = talks.publish(blobs, Kind.CONVERSATIONS, talks.demonstrations())
        model = replace(before, vocabulary=max(before.vocabulary, talks.TOKENIZER.vocabulary))
        self.training = replace(talks.sft(digest, base), model=model, conversion=CONVERSION)
        self.staged, self.folder = talks.staged(blobs, folder / "cache", key, self.training)

    @property
    def base(self) -> StagedCheckpoint:
        return open_staged(self.folder)

    def vector(self, conversion: Conversion = CONVERSION) -> torch.Tensor:
        """The parameters that the training begins with."""
        layout = Layout(self.training.model)
        read = initial_of(self.base, layout, conversion=conversion)
        return torch.cat([torch.from_numpy(np.array(read(chunk.index, "parameter"))) for chunk in layout.chunks])


def logits(model: ModelSpec, vector: torch.Tensor, tokens: list[int]) -> np.ndarray:
    transformer = Transformer(Layout(model), vector, compiled=False)
    read = torch.tensor([[*tokens, 0]])
    with torch.no_grad():
        hidden, weight = transformer._hidden(read, torch.zeros_like(read))
        found: np.ndarray = (hidden @ weight.t()).numpy()
    return found


def test_the_tokenizer_is_the_one_that_a_recipe_with_a_template_trains() -> None:
    assert PLAIN.extended(CHAT_1.tokens).version == talks.TOKENIZER.version


def test_the_extended_model_says_of_texts_what_it_said_before(world: World) -> None:
    text = PLAIN.encode("a b c d").tolist()
    old = logits(world.base.body.layout.model, torch.from_numpy(parameters_of(world.base)), text)
    new = logits(world.training.model, world.vector(), text)
    np.testing.assert_allclose(new[:, :END], old[:, :END], atol=1e-6)
    np.testing.assert_allclose(new[:, ADDED.stop], old[:, END], atol=1e-6)  # the end of a text has moved up
    np.testing.assert_allclose(new[:, ADDED], old[:, : END + 1].mean(1)[:, None].repeat(3, 1), atol=1e-5)


def test_tokens_behind_all_ids_take_rows_of_no_token_and_move_none(world: World) -> None:
    conversion, end = replace(CONVERSION, rule=APPENDED_1), PLAIN.vocabulary
    added, text = slice(end, end + CONVERSION.added), PLAIN.encode("a b c d").tolist()
    old = logits(world.base.body.layout.model, torch.from_numpy(parameters_of(world.base)), text)
    new = logits(world.training.model, world.vector(conversion), text)
    np.testing.assert_allclose(new[:, :end], old[:, :end], atol=1e-6)
    np.testing.assert_allclose(new[:, added], old[:, :end].mean(1)[:, None].repeat(3, 1), atol=1e-5)
    np.testing.assert_allclose(new[:, added.stop :], old[:, added.stop :], atol=1e-6)


def state(training: Training, staged: Staged, initial: Path, dp: int) -> Tensors:
    def work(rank: int, group: Group) -> Tensors:
        plan = Plan(Layout(training.model), Shape(dp), training.step.leaves)
        me = RankStep(
            training.model, training.optimizer, training.step, plan, rank=rank, epoch=1, group=group, audit_every=0
        )
        me.initialize(initial_of(open_staged(initial), plan.layout, conversion=training.conversion))
        data = PROGRAMS["sft"].read(staged, training)
        for step in range(1, 4):
            me.run(step, data.leaves(data.first_ledger(), step, me.leaves_needed(step)))
        return snapshot(me)

    return {key: data for part in on_ranks(dp, work) for key, data in part.items()}


def test_the_state_is_the_same_on_any_number_of_ranks(world: World) -> None:
    one, two = (state(world.training, world.staged, world.folder, dp) for dp in (1, 2))
    assert one == two


def test_a_checkpoint_of_another_vocabulary_is_refused_without_a_conversion(world: World) -> None:
    if world.base.body.layout.model.vocabulary == world.training.model.vocabulary:
        pytest.skip("its model has room for the tokens")
    with pytest.raises(SpecError, match="has another unit embed"):
        initial_of(world.base, Layout(world.training.model))
