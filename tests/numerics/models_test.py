"""Models kept in memory: loaded once, dropped by use when memory is short, and the same texts as from disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests import talks
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import RealFiles
from tutti.chassis.tasks import WorkFailed
from tutti.checkpoints.keys import manifest_of
from tutti.checkpoints.staged import MANIFEST, open_staged
from tutti.inference.models import MODELS, Models, NoRoom, NotLoaded, Wanted
from tutti.inference.parameters import parameters_of
from tutti.inference.sampling import Sampling
from tutti.sampling.continuing import Continued, continue_texts
from tutti.trainer.io.staging import Cache

PLENTY = 1 << 30


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Three staged checkpoints of one layout and different parameters."""
    blobs = EmbeddedBlobs(tmp_path / "blobs")
    cache = Cache(tmp_path / "cache", blobs, RealFiles())
    found: list[Path] = []
    for number in range(1, 4):
        base = talks.base(blobs, replace(talks.MODEL, init_std=0.1 * number), job=f"job-{number}")
        found += cache.checkpoints({base.state_digest: manifest_of(base.name)})
    return found


def wanted(folder: Path, most_bytes: int = PLENTY, *, load: bool = True) -> Wanted:
    return Wanted((folder / MANIFEST).read_bytes(), folder if load else None, most_bytes)


def digest(folder: Path) -> str:
    return open_staged(folder).body.model_digest


def size(folder: Path) -> int:
    return 4 * open_staged(folder).body.layout.elements


def test_a_model_is_loaded_once_and_has_the_parameters_of_its_checkpoint(folders: list[Path]) -> None:
    models, heard = Models(), list[tuple[int, int]]()
    with pytest.raises(NotLoaded, match="is not in memory"):
        models.model(wanted(folders[0], load=False))
    first = models.model(wanted(folders[0]), advanced=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (size(folders[0]), size(folders[0]))
    assert np.array_equal(first.vector.numpy(), parameters_of(open_staged(folders[0])))
    assert first.vector.data_ptr() % 64 == 0
    again = models.model(wanted(folders[0], load=False))
    assert again.vector is first.vector
    assert again.body.name == "checkpoints/job-1/0/1"


def test_the_model_that_was_used_longest_ago_is_dropped_first(folders: list[Path]) -> None:
    models, two = Models(), 2 * size(folders[0])
    for folder in (folders[0], folders[1], folders[0], folders[2]):
        models.model(wanted(folder, two))
    assert list(models.digests) == [digest(folders[0]), digest(folders[2])]
    with pytest.raises(NotLoaded):
        models.model(wanted(folders[1], two, load=False))
    assert list(models.digests) == [digest(folders[0]), digest(folders[2])]  # a request that fails drops nothing
    models.model(wanted(folders[0], two - 1, load=False))
    assert list(models.digests) == [digest(folders[0])]


def test_a_model_larger_than_the_bound_is_used_and_not_kept(folders: list[Path]) -> None:
    models = Models()
    models.model(wanted(folders[0]))
    found = models.model(wanted(folders[1], size(folders[1]) - 1))
    assert found.body.model_digest == digest(folders[1])
    assert not models.digests
    assert models.model(wanted(folders[0], 0)).body.model_digest == digest(folders[0])
    assert not models.digests


def test_a_damaged_checkpoint_is_refused_and_keeps_no_place(folders: list[Path]) -> None:
    path = folders[0] / "0.bin"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(WorkFailed, match=r"chunk 0 \(embed.*blake3:"):
        sampled(wanted(folders[0]))
    assert digest(folders[0]) not in MODELS.digests


def test_kept_models_make_room_for_one_that_needs_the_memory_and_what_does_not_fit_drops_none(
    folders: list[Path],
) -> None:
    models, one = Models(), size(folders[0])
    for folder in folders[:2]:
        models.model(wanted(folder))
    both = [digest(folder) for folder in folders[:2]]
    with pytest.raises(NoRoom, match="of memory"):
        models.model(replace(wanted(folders[2]), free_bytes=0), beside=one + 1)
    with pytest.raises(NotLoaded):
        models.model(replace(wanted(folders[2], load=False), free_bytes=0), beside=one)
    assert list(models.digests) == both
    models.model(replace(wanted(folders[0], load=False), free_bytes=one), beside=one)
    assert sorted(models.digests) == sorted(both)
    models.model(replace(wanted(folders[0], load=False), free_bytes=0), beside=one)
    assert list(models.digests) == both[:1]
    with pytest.raises(NoRoom):
        models.model(replace(wanted(folders[0], load=False), free_bytes=0), beside=1)
    models.model(replace(wanted(folders[2]), free_bytes=0))
    assert list(models.digests) == [digest(folders[2])]


def test_a_sample_for_which_there_is_no_memory_is_refused_before_its_checkpoint_is_fetched(folders: list[Path]) -> None:
    asked = replace(wanted(folders[0], load=False), free_bytes=size(folders[0]))
    with pytest.raises(WorkFailed, match="fewer tokens, shorten the prompts, or take a smaller model"):
        sampled(asked)


def sampled(model: Wanted) -> list[Continued]:
    return continue_texts(model, talks.TOKENIZER, ["a b", "h", ""], Sampling(seed=3), 8)


def test_two_checkpoints_in_turn_write_what_each_writes_alone(folders: list[Path]) -> None:
    alone = [sampled(wanted(folder, 0)) for folder in folders[:2]]
    assert alone[0] != alone[1]
    one = size(folders[0])
    for most_bytes in (2 * one, one):  # both are kept, or each drops the other
        for _ in range(3):
            assert [sampled(wanted(folder, most_bytes)) for folder in folders[:2]] == alone
    assert list(MODELS.digests) == [digest(folders[1])]
