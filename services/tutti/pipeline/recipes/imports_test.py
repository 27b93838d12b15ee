"""Trainings that continue an import: their model and their tokens are those that came in."""

from pathlib import Path
from typing import Any

import pytest

from tutti.chassis.errors import InvalidField
from tutti.chassis.work.work import put_named
from tutti.checkpoints.digests import model_root
from tutti.checkpoints.imported import FolderFile, ImportBody
from tutti.checkpoints.places import BlobEntry, ChunkPlace
from tutti.checkpoints.report import ChunkEntry
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, CHECKPOINT_STATE_PRUNED, Checkpoint
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING, Artifact
from tutti.contracts.pipeline.v1 import CheckRecipeRequest
from tutti.contracts.scheduler.v1 import Job
from tutti.contracts.tokenization.v1 import Tokenizer
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.tokenizer_test import of_others
from tutti.model.chunks import Kind, Layout
from tutti.model.spec import ModelSpec
from tutti.model.training import Training
from tutti.pipeline.definitions.finetuning_test import create, finished
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.reading import read
from tutti.pipeline.world_test import CALL, DataOwner, World
from tutti.records.canonical import bytes_digest

DIGEST = "blake3:" + "e" * 64
TOKENS = of_others()
TOKENIZER = TOKENS.version.replace("blake3:", "tokenizers/")
MODEL = ModelSpec(vocabulary=400, width=32, layers=1, heads=2, kv_heads=2, hidden=64, context=64, qkv_bias=True)
BASE = "name: further\ninput: {path: pages}\ndata: {context: 32}\n"
FURTHER = "  further: {kind: train, from: {initial: IMPORTED}, steps: 10, microbatches: 2}\n"
TEXT = f"{BASE}stages:\n{FURTHER}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.training = lambda job: Training.from_json(job.spec.training)
    layout, places, end = Layout(MODEL), list[ChunkPlace](), 0
    for chunk in layout.chunks:
        entry = ChunkEntry(chunk.index, Kind.PARAMETER, end, 4 * chunk.length, bytes([chunk.index] * 32))
        places.append(ChunkPlace(0, entry))
        end += entry.nbytes
    root, data = model_root(layout, [place.entry.digest for place in places]), bytes(end)
    blobs = (BlobEntry(put_named(made.blobs, "committer/imports", data, ".bin"), end, bytes_digest(data)),)
    files = (FolderFile("config.json", DIGEST, "b"),)
    body = ImportBody(layout, files, TOKENS.version, "", "mit", "float32", root, blobs, tuple(places), ("c",))
    made.blobs.put_if_absent(body.manifest_key, body.manifest(producer="test").encode())
    made.blobs.put_if_absent(tokenizer_key(TOKENS.version), TOKENS.artefact)
    made.train.made["imported"] = made.train.made[body.name] = Checkpoint(
        name=body.name,
        manifest_key=body.manifest_key,
        folder_digest=body.folder_digest,
        state=CHECKPOINT_STATE_COMMITTED,
    )
    made.tokenization.foreign[TOKENIZER] = Tokenizer(name=TOKENIZER, vocabulary=390, foreign=True, lossy=True)
    return made


def named(world: World, text: str) -> str:
    """The text of a recipe with the name of the import."""
    return text.replace("IMPORTED", world.train.made["imported"].name)


def trained(world: World) -> Training:
    jobs = [each for each in world.train.made.values() if isinstance(each, Job)]
    return Training.from_json(jobs[-1].spec.training)


def tokenized(world: World) -> Any:
    return list(world.tokenization.made.values())[-1].spec


def test_a_training_goes_on_with_the_model_and_the_tokenizer_that_came_in(world: World) -> None:
    run, done = finished(world, named(world, TEXT))
    assert run.state == STATE_DONE, run.reason
    assert done == ["ingest", "filter", "dedup", "tokenization", "further"]
    assert (tokenized(world).tokenizer, tokenized(world).context) == (TOKENIZER, 32)
    training, imported = trained(world), world.train.made["imported"]
    assert (training.model, training.length, training.program) == (MODEL, 32, "pretrain")
    assert training.initial is not None
    assert (training.initial.checkpoint, training.initial.state_digest) == (imported.name, imported.folder_digest)
    again, done = finished(world, named(world, TEXT))
    assert (again.state, done) == (STATE_DONE, [])


def test_rows_as_long_as_the_context_of_the_model_have_no_length_of_their_own(world: World) -> None:
    run, _ = finished(world, named(world, TEXT).replace("context: 32", "context: 64"))
    assert run.state == STATE_DONE, run.reason
    assert trained(world).step.length == 0


def test_one_dataset_serves_each_checkpoint_that_goes_back_to_the_same_import(world: World) -> None:
    more = "  longer: {kind: train, from: {initial: further}, steps: 20, microbatches: 2}\n"
    run, done = finished(world, named(world, TEXT + more))
    assert run.state == STATE_DONE, run.reason
    assert done[-3:] == ["tokenization", "further", "longer"]
    assert trained(world).model == MODEL
    alone = next(each for each in run.stages if each.name == "tokenization").reuse_key
    last = f"checkpoints/{run.stages[-1].resource.removeprefix('jobs/')}/0/10"
    text = f"{BASE}tokenizer: {{of: {last}}}\nstages:\n{FURTHER.replace('IMPORTED', last)}"
    other, done = finished(world, text.replace("steps: 10", "steps: 12"))
    assert (other.state, done) == (STATE_DONE, ["further"]), other.reason
    assert next(each for each in other.stages if each.name == "tokenization").reuse_key == alone


def test_a_mixture_over_the_tokenizer_of_an_import_needs_no_other_key(world: World) -> None:
    finished(world, named(world, TEXT))
    (first,) = world.tokenization.datasets.values()
    world.page("b.html", "more")
    mixed = f"{named(world, TEXT)}mixture: {{datasets: {{{first.name}: 2}}}}\n"
    run, done = finished(world, mixed)
    assert (run.state, done[-2:]) == (STATE_DONE, ["tokenization", "further"]), run.reason
    assert [each.weight for each in trained(world).mixture] == [1, 2]
    again, done = finished(world, mixed)
    assert (again.state, done) == (STATE_DONE, [])
    first.tokenizer = "tokenizers/another"
    world.page("c.html", "still more")
    failed, _ = finished(world, mixed)
    assert failed.state == STATE_FAILED
    assert all(words in failed.reason for words in ("mixture.datasets", "tokenizers/another", TOKENIZER))


def test_texts_wait_for_the_stage_that_makes_the_checkpoint_with_their_tokenizer() -> None:
    tuned = "  tuned: {kind: sft, from: {initial: checkpoints/import-a/0/0, demonstrations: conversations/a}}\n"
    text = f"template: own\n{BASE}stages:\n{FURTHER.replace('IMPORTED', 'tuned')}{tuned}"
    every = graph.nodes(read(text))
    assert [each.name for each in every] == ["ingest", "filter", "dedup", "tuned", "tokenization", "further"]
    assert {each.name: each.inputs.get("tokenizer") for each in every}["tokenization"] == ("tuned",)


def test_a_recipe_without_an_import_trains_its_own_tokenizer() -> None:
    for checkpoint in ("train", "checkpoints/a/0/1"):
        text = f"train: {{steps: 2}}\n{TEXT.replace('IMPORTED', checkpoint)}"
        every = {each.name: each for each in graph.nodes(read(text))}
        assert every["tokenization"].inputs.keys() == {"documents", "measures"}


class ImportOwner(DataOwner):
    """Reads a folder as the import of the world; one that is not there cannot be imported."""

    digest = ""

    def create(self, request: Any, message: type[Any]) -> Any:
        if not Path(request.spec.folder).is_dir():
            expected = "a folder that can be imported: config.json: hidden_act is 'gelu'; expected silu"
            raise InvalidField("spec.folder", seen=request.spec.folder, expected=expected)
        imported, work = self.world.train.made["imported"], super().create(request, message)
        work.checkpoint, work.folder_digest = imported.name, self.digest or imported.folder_digest
        work.spec.ClearField("folder")
        return work

    def finish(self) -> None:
        imported = self.world.train.made["imported"]
        result = Artifact(manifest_key=imported.manifest_key, content_digest=imported.folder_digest)
        self.end(STATE_DONE, "", result)


@pytest.fixture
def owner(world: World) -> ImportOwner:
    (world.folder / "model").mkdir()
    world.works["imports"] = made = ImportOwner(world)
    vars(world)["finish_imported"] = made.finish
    world.start()
    return made


FOLDER = TEXT.replace("IMPORTED", "{huggingface: model}")


def test_a_folder_that_a_recipe_names_is_imported_first(world: World, owner: ImportOwner) -> None:
    run, done = finished(world, FOLDER)
    assert run.state == STATE_DONE, run.reason
    assert done == ["ingest", "filter", "dedup", "further-initial", "tokenization", "further"]
    assert str(world.folder) not in run.spec.recipe
    assert world.train.made["imported"].folder_digest in run.spec.recipe
    assert (trained(world).model, tokenized(world).tokenizer) == (MODEL, TOKENIZER)
    found = {each.name: each for each in run.stages}
    again, done = finished(world, named(world, TEXT))
    assert (again.state, done) == (STATE_DONE, [])
    assert {each.name: each.reuse_key for each in again.stages}["further"] == found["further"].reuse_key
    assert finished(world, FOLDER.replace("steps: 10", "steps: 12"))[1] == ["further"]


def test_stages_that_name_one_folder_share_its_import(world: World) -> None:
    other = FURTHER.replace("further", "other").replace("IMPORTED", "{huggingface: model}")
    recipe = read(FOLDER + other)
    assert [name for name, each in recipe.stages.items() if each.kind == "imported"] == ["further-initial"]
    assert {name: each.inputs.get("initial") for name, each in recipe.stages.items()} == {
        "further": ("further-initial",),
        "other": ("further-initial",),
        "further-initial": None,
    }
    assert read(recipe.canonical()).digest() == recipe.digest()


def test_a_folder_that_is_refused_is_refused_with_the_recipe(world: World, owner: ImportOwner) -> None:
    text = FOLDER.replace("huggingface: model", "huggingface: other")
    with pytest.raises(InvalidField, match=r"config.json: hidden_act is 'gelu'; expected silu") as refused:
        create(world, text)
    assert refused.value.field == "stages.further.from.initial.huggingface"
    request = CheckRecipeRequest(recipe=text, directory=str(world.folder), all_problems=True)
    assert [each.key for each in world.api.CheckRecipe(request, CALL).problems] == [refused.value.field]


def test_a_folder_that_changes_before_it_is_imported_ends_the_run(world: World, owner: ImportOwner) -> None:
    run = create(world, FOLDER)
    owner.digest = "blake3:" + "f" * 64
    while (run := world.run(run.name)).state == STATE_RUNNING:
        world.finish(next(each.kind for each in run.stages if each.state == STATE_RUNNING))
    assert run.state == STATE_FAILED
    assert "the folder has changed" in run.reason


@pytest.mark.parametrize("ref", ["{huggingface: 3}", "{other: model}", "{huggingface: a, more: b}"])
def test_an_input_that_is_neither_a_name_nor_a_folder_is_refused(ref: str) -> None:
    with pytest.raises(InvalidField) as refused:
        read(TEXT.replace("IMPORTED", ref))
    assert refused.value.field == "stages.further.from.initial"


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ("context: 32 -> context: 65", "stages.further.from.initial", "context of 64 tokens"),
        ("steps: 10 -> steps: 10, tied_embeddings: true", "stages.further.tied_embeddings", "two matrices"),
        ("data: -> tokenizer: {vocabulary: 500}\ndata:", "tokenizer.vocabulary", "nothing beside the tokenizer"),
        ("data: -> tokenizer: {pattern: a}\ndata:", "tokenizer.pattern", "nothing beside the tokenizer"),
        ("data: -> model: {layers: 2}\ndata:", "model", "continues the model of an import"),
    ],
)
def test_keys_that_do_not_fit_an_import_are_refused_before_anything_starts(
    world: World, change: str, key: str, words: str
) -> None:
    before, after = change.split(" -> ")
    text = named(world, TEXT).replace(before, after)
    with pytest.raises(InvalidField, match=words) as refused:
        create(world, text)
    assert refused.value.field == key
    request = CheckRecipeRequest(recipe=text, directory=str(world.folder), all_problems=True)
    assert key in [each.key for each in world.api.CheckRecipe(request, CALL).problems]


def test_an_import_that_is_pruned_is_refused_by_the_key_that_names_it(world: World) -> None:
    world.train.made["imported"].state = CHECKPOINT_STATE_PRUNED
    with pytest.raises(InvalidField, match="which is pruned") as refused:
        create(world, named(world, TEXT))
    assert refused.value.field == "stages.further.from.initial"


def test_no_index_is_made_of_texts_that_do_not_come_back(world: World) -> None:
    run, done = finished(world, f"index: true\n{named(world, TEXT)}")
    assert (run.state, done[-1]) == (STATE_FAILED, "tokenization")
    assert "index" in run.reason
    assert "does not give texts back" in run.reason


def test_a_model_of_the_recipe_with_fewer_ids_than_the_tokens_of_an_import_is_refused(world: World) -> None:
    run, done = finished(world, f"train: {{steps: 2}}\n{named(world, TEXT)}".replace("data:", "size: tiny\ndata:"))
    assert run.state == STATE_DONE, run.reason  # 4,096 ids are enough
    world.tokenization.foreign[TOKENIZER].vocabulary = 5000
    text = f"train: {{steps: 3}}\n{named(world, TEXT)}".replace("data:", "size: tiny\ndata:")
    run, done = finished(world, text)
    assert (run.state, done) == (STATE_FAILED, [])
    assert "tokenizer.vocabulary: 5000" in run.reason


def test_what_a_training_of_an_import_needs_is_not_made_up() -> None:
    node = graph.node_of(read(TEXT.replace("IMPORTED", "checkpoints/import-a/0/0")), "further")
    assert (node.stage.amount(node.view, 9), node.stage.disk(node.view)) == (0, None)
    assert (node.stage.memory(node.view), node.stage.rank_memory(node.view)) == (None, None)
