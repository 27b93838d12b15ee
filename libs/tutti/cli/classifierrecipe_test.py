"""Recipes of classifiers: a file says what options say, and what is wrong is named before anything starts."""

import json
from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField
from tutti.cli.classifierrecipe import ClassifierRecipe, asked_for, of_options, read, spec_of
from tutti.contracts.ingest.v1 import ClassifierSpec

LEAST = "name: web\ninput: {path: labelled}\nkeeps: fine\n"
HARM = Path(__file__).parents[3] / "recipes" / "harm.yaml"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for label in ("fine", "junk", ".git"):
        (tmp_path / "labelled" / label).mkdir(parents=True)
    (tmp_path / "labelled" / "README.md").touch()
    return tmp_path


def test_every_default_is_filled_in() -> None:
    assert read(LEAST) == read(f"{LEAST}most_false: 0.02\n", ["input.text_field=text"])
    assert read(LEAST).most_false == 0.02


def test_a_folder_with_options_is_the_same_recipe_and_the_same_request(directory: Path) -> None:
    folder = directory / "labelled"
    recipe = of_options(folder, name="web", keeps="fine", most_false=None)
    assert recipe == read(LEAST, [f"input.path={folder}"])
    asked = ClassifierSpec(input_path=str(folder), keeps="fine", most_false=0.02)
    assert spec_of(recipe, Path("/elsewhere")) == spec_of(read(LEAST), directory) == asked
    changed = of_options(folder, ["input.text_field=body"], name="web", keeps="fine", most_false=0.1)
    asked = ClassifierSpec(input_path=str(folder), keeps="fine", most_false=0.1, text_field="body")
    assert spec_of(changed, directory) == asked


def test_the_folder_starts_from_where_the_recipe_lies(directory: Path) -> None:
    (directory / "recipes").mkdir()
    spec = spec_of(read(LEAST, ["input.path=../labelled"]), directory / "recipes")
    assert spec.input_path == str((directory / "labelled").resolve())


def test_the_recipe_of_the_carried_set_is_one_and_its_folder_is_there() -> None:
    recipe = read(HARM.read_text())
    spec = spec_of(recipe, HARM.parent)
    assert (recipe.name, spec.keeps, spec.most_false) == ("harm", "harmless", 0.06)
    assert Path(spec.input_path) == (HARM.parents[1] / "datasets" / "harm").resolve()


def test_a_recipe_of_windows_asks_for_another_classifier() -> None:
    windows = read(HARM.with_name("harm-windows.yaml").read_text())
    assert spec_of(windows, HARM.parent).window == 192
    assert asked_for(spec_of(windows, HARM.parent)) != asked_for(spec_of(read(HARM.read_text()), HARM.parent))
    with pytest.raises(InvalidField, match="window"):
        read(HARM.read_text(), ["window=193"])


def test_an_override_is_typed_by_its_key() -> None:
    recipe = read(LEAST, ["name=7", "most_false=1e-3"])
    assert (recipe.name, recipe.most_false) == ("7", 0.001)


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        (f"{LEAST}kepes: junk", "kepes", "nearest is keeps"),
        (f"{LEAST}zzzzz: 1", "zzzzz", "one of input.path, input.text_field, keeps, most_false, name"),
        (LEAST.replace("keeps: fine\n", ""), "keeps", "--set keeps="),
        (LEAST.replace("name: web\n", ""), "name", "--set name="),
        (LEAST.replace("path: labelled", ""), "input.path", "--set input.path="),
        (f"{LEAST}most_false: 0", "most_false", "greater than 0"),
        (f"{LEAST}most_false: 1", "most_false", "less than 1"),
        (f"{LEAST}most_false: few", "most_false", "number, got 'few'"),
        (f"{LEAST}most_false: .nan", "most_false", "number"),
        (f"{LEAST}name: other", "recipe", "the key 'name' is given twice"),
        ("input: {path: x}\ntrain: {steps: 1}", "recipe", "`tutti run` takes this one"),
        ("", "recipe", "a YAML mapping"),
    ],
)
def test_what_is_wrong_is_named(text: str, field: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words) as refused:
        read(text)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("override", "field", "words"),
    [
        ("nonsense", "overrides", "KEY=VALUE"),
        ("kepes=fine", "kepes", "nearest is keeps"),
        ("most_false=2", "most_false", "less than 1"),
    ],
)
def test_an_override_that_is_wrong_is_named(override: str, field: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words) as refused:
        read(LEAST, [override])
    with pytest.raises(InvalidField, match=words) as as_well:
        of_options(Path("labelled"), [override], name="web", keeps="fine")
    assert refused.value.field == as_well.value.field == field


@pytest.mark.parametrize(
    ("override", "field", "words"),
    [
        ("input.path=nowhere", "input.path", "a folder whose folders are labels, got 'nowhere'"),
        ("input.path=labelled/README.md", "input.path", "a folder"),
        ("input.path=a\0b", "input.path", "a folder"),
        ("input.path=labelled/fine", "keeps", r"\(it has none\)"),
        ("keeps=fien", "keeps", r"a folder of labelled \(fine, junk\), got 'fien'"),
        ("keeps=..", "keeps", "a folder of labelled"),
        ("keeps=README.md", "keeps", "a folder of labelled"),
    ],
)
def test_folders_that_are_not_there_are_named_as_the_recipe_has_them(
    directory: Path, override: str, field: str, words: str
) -> None:
    with pytest.raises(InvalidField, match=words) as refused:
        spec_of(read(LEAST, [override]), directory)
    assert refused.value.field == field


def test_json_is_a_recipe_too() -> None:
    recipe = read(LEAST)
    assert read(json.dumps(recipe.model_dump())) == ClassifierRecipe.model_validate(recipe.model_dump()) == recipe
