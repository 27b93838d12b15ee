"""A folder of Hugging Face becomes one checkpoint of parameters, also if the import is repeated or killed."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tutti.backbone import Blobs
from tutti.backbone.blobs import Put
from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Method, Principal
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.imported import ImportBody
from tutti.checkpoints.keys import IMPORTS, MANIFESTS, checkpoint_of
from tutti.checkpoints.reader import stage
from tutti.committer import reading
from tutti.committer.conftest import CONFIGURATION
from tutti.committer.rehearsal_test import CALL, Rehearsal
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    Checkpoint,
    CreateImportRequest,
    Import,
    ImportSpec,
    VerifyCheckpointRequest,
)
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, GetRequest
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.corpus.tokens.tokenizer_test import of_bytes
from tutti.inference.foreign.config import CONFIG
from tutti.inference.foreign.folder import WEIGHTS, opened
from tutti.inference.foreign.folder_test import digest
from tutti.inference.parameters import parameters_of
from tutti.model.chunks import Kind

STRANGER = Principal("users/u1", frozenset({Role.ENGINEER}), "tenants/other", Method.TOKEN)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the parameters into several blobs, as those of a large model are."""
    cut = reading.shards_of
    monkeypatch.setattr(reading, "shards_of", lambda layout: cut(layout, 4096))


def ask(world: Rehearsal, folder: Path, name: str = "imports/a", **call: Any) -> None:
    request = CreateImportRequest(request_id=name, name=name, spec=ImportSpec(folder=str(folder)))
    world.api.CreateImport(request, replace(CALL, **call))


def imported(world: Rehearsal, folder: Path, name: str = "imports/a") -> Import:
    ask(world, folder, name)
    world.settle()
    found: Import = world.api.GetImport(GetRequest(name=name), CALL)
    return found


def checkpoint(world: Rehearsal, name: str) -> Checkpoint:
    found: Checkpoint = world.api.GetCheckpoint(GetRequest(name=name), CALL)
    return found


def keys(world: Rehearsal, prefix: str) -> list[str]:
    return [stat.key for stat in world.blobs.list(prefix)]


def test_a_folder_becomes_a_checkpoint_of_its_parameters_and_tokenizer(
    folder: Path, small_shards: None, tmp_path: Path
) -> None:
    world = Rehearsal(tmp_path / "world")
    made = imported(world, folder)
    assert (made.state, made.reason) == (STATE_DONE, "")
    assert (made.folder_digest, made.licence, made.template) == (digest(folder), "apache-2.0", "")
    found = checkpoint(world, made.checkpoint)
    assert made.checkpoint == f"checkpoints/import-{made.folder_digest.removeprefix('blake3:')}/0/0"
    assert (found.state, found.state_digest, found.job) == (CHECKPOINT_STATE_COMMITTED, "", "")
    assert checkpoint_of(found.manifest_key) == found.name
    staged = stage(world.blobs, found.manifest_key, tmp_path / "staged", identity=found.folder_digest)
    assert isinstance(staged.body, ImportBody)
    assert len(staged.body.blobs) > 1
    with opened(folder) as foreign:
        assert made.model_digest == foreign.weights.digest()
        expected = np.concatenate([foreign.weights.chunk(chunk) for chunk in foreign.layout.chunks])
    assert np.array_equal(parameters_of(staged), expected)
    with pytest.raises(CheckpointError, match="parameters alone"):
        staged.read(0, Kind.FIRST_MOMENT)
    tokenizer = BytePairTokenizer.load(world.blobs.get(tokenizer_key(made.tokenizer)), expected_version=made.tokenizer)
    assert (tokenizer.ends, tokenizer.eos, tokenizer.file) == ((256, 257), 256, of_bytes("<|user|>").artefact)
    assert world.api.VerifyCheckpoint(VerifyCheckpointRequest(name=found.name), CALL).ok
    assert str(folder) not in "".join(map(str, [*world.events(Import), *world.export(), staged.body]))
    world.close()


def test_a_request_is_answered_again_after_its_folder_is_gone(folder: Path, tmp_path: Path) -> None:
    world = Rehearsal(tmp_path / "world")
    first = imported(world, folder)
    shutil.rmtree(folder)
    assert imported(world, folder) == first
    with pytest.raises(InvalidField, match="folder"):
        ask(world, folder, "imports/b")
    world.close()


def test_the_same_folder_becomes_the_same_checkpoint(folder: Path, tmp_path: Path) -> None:
    world = Rehearsal(tmp_path / "world")
    first, blobs = imported(world, folder), sorted(keys(world, ""))
    again = imported(world, folder, "imports/b")
    assert (again.checkpoint, again.result) == (first.checkpoint, first.result)
    assert sorted(keys(world, "")) == blobs
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    other = imported(world, folder, "imports/c")
    assert (other.licence, other.model_digest) == ("mit", first.model_digest)
    assert other.checkpoint != first.checkpoint
    world.close()


def test_a_folder_that_is_only_checked_is_read_and_nothing_is_stored(folder: Path, tmp_path: Path) -> None:
    world, spec = Rehearsal(tmp_path / "world"), ImportSpec(folder=str(folder))
    request = CreateImportRequest(request_id="a", name="imports/a", spec=spec, validate_only=True)
    found = getattr(world.api.CreateImport(request, CALL), "import")
    assert keys(world, "") == []
    made = imported(world, folder)
    for each in ("checkpoint", "folder_digest", "tokenizer", "template", "licence"):
        assert getattr(found, each) == getattr(made, each), each
    assert found.spec.folder == ""
    (folder / CONFIG).write_text(json.dumps(CONFIGURATION | {"hidden_act": "gelu"}))
    with pytest.raises(InvalidField, match=r"config.json: hidden_act is 'gelu'; expected silu"):
        world.api.CreateImport(request, CALL)
    world.close()


@pytest.mark.parametrize(
    ("change", "file", "key"),
    [
        ({"hidden_act": "gelu"}, CONFIG, "hidden_act"),
        ({"auto_map": {"AutoModel": "a.B"}}, CONFIG, "auto_map"),
        ({"intermediate_size": 32}, WEIGHTS, "model.layers.0.mlp.down_proj.weight.shape"),
        ({"eos_token_id": None}, CONFIG, "eos_token_id"),
        ({"vocab_size": 200}, WEIGHTS, "lm_head.weight.shape"),
    ],
)
def test_a_folder_that_is_refused_leaves_nothing_and_names_file_and_key(
    change: dict[str, Any], file: str, key: str, folder: Path, tmp_path: Path
) -> None:
    (folder / CONFIG).write_text(json.dumps(CONFIGURATION | change))
    world = Rehearsal(tmp_path / "world")
    made = imported(world, folder)
    assert made.state == STATE_FAILED
    assert made.reason.startswith(f"{file}: {key} is ")
    assert keys(world, "committer/") == []
    world.close()


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Watched:
    """A store that calls `then` before it takes its n-th blob."""

    inner: Any
    at: int
    then: Callable[[], None]

    def put_if_absent(self, key: str, data: Any) -> Put:
        self.at -= 1
        if self.at == 0:
            self.then()
        put: Put = self.inner.put_if_absent(key, data)
        return put

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def watching(at: int, then: Callable[[], None]) -> Callable[[Blobs], Blobs]:
    def wrapped(blobs: Blobs) -> Blobs:
        return Watched(blobs, at, then)

    return wrapped


def kill() -> None:
    raise Killed


@pytest.mark.parametrize("at", range(1, 9))
def test_an_import_that_is_killed_leaves_no_checkpoint_and_goes_on(
    at: int, folder: Path, small_shards: None, tmp_path: Path
) -> None:
    before = Rehearsal(tmp_path / "world", wrap_blobs=watching(at, kill))
    ask(before, folder)
    with pytest.raises(Killed):
        before.settle()
    assert keys(before, MANIFESTS) == []
    before.close()
    after = Rehearsal(tmp_path / "world", life=1)
    after.settle()
    made: Import = after.api.GetImport(GetRequest(name="imports/a"), CALL)
    assert made.state == STATE_DONE
    assert after.api.VerifyCheckpoint(VerifyCheckpointRequest(name=made.checkpoint), CALL).ok
    after.close()


def test_two_replicas_that_import_at_once_make_one_checkpoint(folder: Path, small_shards: None, tmp_path: Path) -> None:
    done = list[Import]()
    at_once = watching(3, lambda: done.append(imported(second, folder, "imports/b")))
    first = Rehearsal(tmp_path / "world", wrap_blobs=at_once)
    second = Rehearsal(tmp_path / "second", database=first.host.database, store=tmp_path / "world/blobs", life=1)
    mine = imported(first, folder)
    assert [mine.checkpoint] == [each.checkpoint for each in done]
    assert len(keys(first, MANIFESTS)) == 1
    assert first.api.VerifyCheckpoint(VerifyCheckpointRequest(name=mine.checkpoint), CALL).ok
    first.close()


def test_a_damaged_import_is_quarantined_and_comes_back_when_the_folder_is_imported_again(
    folder: Path, tmp_path: Path
) -> None:
    world = Rehearsal(tmp_path / "world")
    made = imported(world, folder)
    for number, key in enumerate((keys(world, IMPORTS)[-1], checkpoint(world, made.checkpoint).manifest_key)):
        blob = next(each for each in keys(world, "committer/") if each == key)
        world.flip(blob, 3)
        world.api.VerifyCheckpoint(VerifyCheckpointRequest(name=made.checkpoint), CALL)
        again = imported(world, folder, f"imports/again-{number}")
        assert again.state == STATE_DONE
        assert checkpoint(world, made.checkpoint).state == CHECKPOINT_STATE_COMMITTED
        assert world.api.VerifyCheckpoint(VerifyCheckpointRequest(name=made.checkpoint), CALL).ok
    world.close()


def test_without_roots_the_owner_of_the_platform_alone_names_a_folder(folder: Path, tmp_path: Path) -> None:
    world = Rehearsal(tmp_path / "world")
    with pytest.raises(InvalidField, match=r"committer\.roots, which the operator of the platform sets"):
        ask(world, folder, user=STRANGER)
    with pytest.raises(NotFound):
        world.api.GetImport(GetRequest(name="imports/a"), CALL)
    for path in ("model", f"{folder}/{CONFIG}", f"{folder}/absent", "/a\0b"):
        with pytest.raises(InvalidField, match=r"spec\.folder"):
            ask(world, Path(path))
    world.close()


def test_folders_and_links_lead_to_files_inside_the_roots_alone(folder: Path, tmp_path: Path) -> None:
    (root := tmp_path / "root").mkdir()
    inside = folder.rename(root / "model")
    (root / "weights").mkdir()
    (inside / WEIGHTS).rename(root / "weights/0")
    (inside / WEIGHTS).symlink_to(root / "weights/0")
    world = Rehearsal(tmp_path / "world", settings={"roots": [str(root)]})
    ask(world, inside, user=STRANGER)
    world.settle()
    assert world.api.GetImport(GetRequest(name="imports/a"), CALL).state == STATE_DONE
    (tmp_path / "outside").mkdir()
    (root / "weights/0").rename(tmp_path / "outside/0")
    (inside / WEIGHTS).unlink()
    (inside / WEIGHTS).symlink_to(tmp_path / "outside/0")
    made = imported(world, inside, "imports/b")
    assert (made.state, made.reason.partition(" is ")[0]) == (STATE_FAILED, WEIGHTS)
    (root / "away").symlink_to(tmp_path / "outside")
    for path in (tmp_path / "outside", root / "away", root / ".."):
        with pytest.raises(InvalidField, match=f"a folder under {root}"):
            ask(world, path)
    world.close()
