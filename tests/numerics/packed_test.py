"""Packed rows by real ranks: padding and what leads a piece count nowhere, and the bits are those of one rank."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tutti.corpus.tokens.batch import Leaf
from tutti.corpus.tokens.loader import Loader
from tutti.records.canonical import keyed_bytes
from tutti.tokenization.documents import as_ids
from tutti.tokenization.writing import Target, write_rows

from .gang import MODEL, Recipe, start, train

EOS = MODEL.vocabulary - 1


@dataclass(frozen=True)
class Packed(Recipe):
    """A run over the rows of a dataset, one after the other."""

    loader: Loader | None = None

    def batch(self, step: int, leaf: int) -> Leaf:  # type: ignore[override]
        assert self.loader is not None
        rows = self.step.rows
        first = (step * self.step.leaves + leaf) * rows
        (found,) = self.loader.batch((first + np.arange(rows)) % self.loader.sequences).leaves(rows)
        return found


def documents(lengths: list[int]) -> list[npt.NDArray[np.uint32]]:
    """Random tokens."""
    return [np.random.default_rng(k).integers(0, EOS, length, np.uint32) for k, length in enumerate(lengths)]


def packed(folder: Path, texts: list[npt.NDArray[np.uint32]]) -> Loader:
    """The rows of documents."""
    folder.mkdir()
    ids = as_ids([keyed_bytes("test", str(k).encode()).hex() for k in range(len(texts))])
    target = Target(folder, "rows", MODEL.vocabulary, EOS, sequences_per_shard=7)
    numbers, lengths = np.arange(len(texts)), np.array([len(each) for each in texts])
    return Loader([path for path, _ in write_rows(numbers, lengths, ids, texts, target, context=MODEL.context)])


def test_any_number_of_ranks_gives_the_same_states_on_packed_rows(tmp_path: Path) -> None:
    lengths = np.random.default_rng(0).integers(0, 70, 40).tolist()
    recipe = Packed(loader=packed(tmp_path / "rows", documents(lengths)))
    alone, *others = (train(recipe, dp, until=2) for dp in (1, 2, 3))
    leaves = [recipe.batch(1, leaf) for leaf in range(recipe.step.leaves)]
    assert alone.results[0].tokens == sum(int(leaf.valid.sum()) for leaf in leaves)
    assert alone.results[0].tokens < recipe.step.leaves * recipe.step.rows * MODEL.context
    for other in others:
        assert (other.digests, other.losses, other.evaluation) == (alone.digests, alone.losses, alone.evaluation)


def told(loader: Loader) -> tuple[float, int]:
    """The sum of losses over all rows of a new model, and over how many tokens."""
    recipe = Packed(loader=loader)
    me = start(recipe, 1, 0, None)
    me.initialize()
    rows = loader.batch(np.arange(loader.sequences)).leaves(1)
    pairs = [Leaf(*(np.concatenate([each, each]) for each in row)) for row in rows]  # a leaf has two rows
    loss, tokens = me.evaluate(len(pairs), pairs.__getitem__)
    return loss / 2, tokens // 2


def test_a_document_is_told_the_same_beside_others_as_alone(tmp_path: Path) -> None:
    texts = documents([10, 9, 8, 14, 13, 30])
    together = packed(tmp_path / "together", texts)
    assert together.sequences == 3
    each = [told(packed(tmp_path / str(number), [text])) for number, text in enumerate(texts)]
    loss, tokens = told(together)
    assert tokens == sum(tokens for _, tokens in each) == sum(len(text) + 1 for text in texts)
    assert loss == pytest.approx(sum(loss for loss, _ in each), rel=1e-5)
