"""A recipe with an error is refused in this process; one about which only a platform knows is not."""

from pathlib import Path

import pytest

from tutti.cli import foresight
from tutti.cli.failures import MISUSE, Failure
from tutti.contracts.pipeline.v1 import CreateRunRequest

SOUND = "{size: tiny, input: {path: .}, train: {steps: 20}}"


def wanted(folder: Path, recipe: str, *overrides: str) -> CreateRunRequest:
    (folder / "page.txt").write_text("The quick brown fox jumps over the lazy dog. " * 40)
    return CreateRunRequest(recipe=recipe, overrides=overrides, directory=str(folder))


@pytest.mark.parametrize(
    ("recipe", "override", "words"),
    [
        (SOUND, "train.stepps=3", "train.stepps: expected a key of recipes"),
        (SOUND, "size=micro", "size: expected 'tiny'"),
        (SOUND, "input.path=nowhere", "input.path: expected a folder"),
        ("[1", "train.steps=3", "a.yaml: expected a YAML mapping"),
    ],
)
def test_an_error_in_a_recipe_is_raised_and_nothing_is_left(
    recipe: str, override: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(Failure) as refused:
        foresight.refuse(tmp_path / "data", wanted(tmp_path, recipe, override), "a.yaml")
    assert str(refused.value).startswith(words)
    assert refused.value.code == MISUSE
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("recipe", [SOUND, "stages: {sample: {from: checkpoints/none/0/1, prompts: [A]}}"])
def test_a_sound_recipe_and_one_that_names_a_resource_are_left_to_the_platform(recipe: str, tmp_path: Path) -> None:
    foresight.refuse(tmp_path / "data", wanted(tmp_path, recipe), "a.yaml")
