"""A classifier is made by its recipe: once, then found again; a run that names it rejects by its labels."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.command import TINY, Result, platform, tiny, tutti

COMMON = "the a of and with"
WORDS = {
    "fine": "river meadow harvest village bread evening garden winter letter bridge orchard window",
    "junk": "offer discount bargain coupon checkout voucher jackpot bonus casino pills replica prize",
}


def texts(label: str, count: int, seed: int, words: int = 20) -> list[str]:
    source = Random(seed)
    return [" ".join(source.choices(f"{WORDS[label]} {COMMON}".split(), k=words)) for _ in range(count)]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Over the folders `fine` and `junk`, which lie beside the folder that it is in."""
    folder = tmp_path_factory.mktemp("classifier")
    for number, label in enumerate(WORDS):
        (folder / "labelled" / label).mkdir(parents=True)
        lines = [json.dumps({"text": text}) for text in texts(label, 30, number)]
        (folder / "labelled" / label / "all.jsonl").write_text("\n".join(lines))
    (folder / "recipes").mkdir()
    path = folder / "recipes" / "web.yaml"
    path.write_text("name: web\ninput: {path: ../labelled}\nkeeps: fine\n")
    return path


def train(data_dir: Path, *arguments: str | Path) -> Result:
    return tutti("classifiers", "train", *arguments, "-o", "json", "--data-dir", data_dir)


@pytest.fixture(scope="module")
def web(recipe: Path, data_dir: Path) -> Any:
    made = train(data_dir, recipe)
    assert made.code == 0, made.err
    assert "trained before" not in made.err
    return made.json()


def test_a_run_that_names_what_nobody_trained_says_how_it_is_trained(data_dir: Path, recipe: Path) -> None:
    refused = tutti(*tiny(data_dir, recipe.parents[1] / "labelled", "quality.classifiers=other"))
    assert refused.code == 2
    assert "`tutti classifiers train RECIPE`" in refused.err
    assert "name: other" in refused.err


def test_the_same_recipe_or_folder_is_the_same_classifier_and_says_that_it_was_there(
    data_dir: Path, recipe: Path, web: Any, tmp_path: Path
) -> None:
    moved = shutil.copytree(recipe.parents[1] / "labelled", tmp_path / "moved")
    options = ("--name", "web", "--keeps", "fine")
    for same in ((recipe,), (recipe.parents[1] / "labelled", *options), (moved, *options)):
        again = train(data_dir, *same)
        assert again.code == 0, again.err
        assert again.json() == web
        assert f"web@{web['model_digest']} was trained before" in again.err
    copied = train(data_dir, recipe, "--set", "name=copy")
    assert (copied.code, copied.json()["model_digest"]) == (0, web["model_digest"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--set", "keeps=junk"), 1, "web exists with keeps fine, not junk"),
        (("--set", "most_false=0.5"), 1, "web exists with most_false 0.02, not 0.5"),
        (("--set", "kepes=junk"), 2, "the nearest is keeps"),
        (("--set", "keeps=jnuk"), 2, "keeps: expected a folder of ../labelled (fine, junk), got 'jnuk'"),
        (("--set", "name=Web"), 2, "name: expected"),
        (("--keeps", "junk"), 2, "to change a RECIPE: --set KEY=VALUE"),
    ],
)
def test_what_a_name_or_a_key_cannot_be_is_said(
    data_dir: Path, recipe: Path, web: Any, arguments: tuple[str, ...], code: int, words: str
) -> None:
    refused = train(data_dir, recipe, *arguments)
    assert (refused.code, refused.out) == (code, "")
    assert words in refused.err


def test_other_texts_are_another_classifier_that_needs_a_name(
    data_dir: Path, recipe: Path, web: Any, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(recipe.parents[1], tmp_path / "other"))
    (other / "labelled" / "fine" / "more.txt").write_text(texts("fine", 1, 9)[0])
    refused = train(data_dir, other / "recipes" / "web.yaml")
    assert refused.code == 1
    assert "web exists and learnt from other texts" in refused.err
    made = train(data_dir, other / "recipes" / "web.yaml", "--set", "name=other")
    assert (made.code, made.json()["model_digest"] == web["model_digest"]) == (0, False)


def test_what_could_not_be_learnt_can_be_mended_under_its_name(data_dir: Path, recipe: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(recipe.parents[1], tmp_path / "mended"))
    whole = (folder / "labelled" / "junk" / "all.jsonl").read_text()
    (folder / "labelled" / "junk" / "all.jsonl").write_text(whole.splitlines()[0])
    again = (folder / "recipes" / "web.yaml", "--set", "name=mended")
    failed = train(data_dir, *again)
    assert failed.code == 1
    assert "'junk'" in failed.err
    (folder / "labelled" / "junk" / "all.jsonl").write_text(whole)
    made = train(data_dir, *again)
    assert made.code == 0, made.err
    assert "trained before" not in made.err


def test_a_recipe_of_a_run_and_one_of_a_classifier_are_told_apart(data_dir: Path, recipe: Path) -> None:
    run = tutti("run", recipe, "--data-dir", data_dir)
    assert run.code == 2
    assert "web.yaml: expected a recipe of a run; `tutti classifiers train` takes this one" in run.err
    trained = train(data_dir, "recipes/tiny.yaml")
    assert trained.code == 2
    assert "tiny.yaml: expected a recipe of a classifier; `tutti run` takes this one" in trained.err


def test_a_run_trains_the_classifiers_whose_recipes_it_carries(recipe: Path, tmp_path: Path) -> None:
    pages, data_dir, mine = tmp_path / "pages", tmp_path / "data", recipe.parent / "mine.yaml"
    pages.mkdir()
    for number, text in enumerate([*texts("fine", 8, 7, words=60), *texts("junk", 2, 8, words=60)]):
        (pages / f"{number}.txt").write_text(text)
    mine.write_text(
        f"{TINY.read_text()}quality: {{classifiers: [web.yaml], thresholds: {{web.junk: 0.9}}}}\ndedup: {{near: 0}}\n"
    )
    short = ("train.steps=2", "train.warmup=0", "train.checkpoint_every=2")
    arguments = [mine, *tiny(data_dir, pages, *short)[2:]]
    with platform(data_dir):
        planned = tutti("run", *arguments, "--dry-run")
        assert planned.code == 2
        assert f"`tutti classifiers train {mine.parent / 'web.yaml'}`" in planned.err
        refused = tutti("run", *arguments, "--set", "train.rows=none")
        assert refused.code == 2
        assert "train.rows: expected" in refused.err
        assert tutti("classifiers", "ls", "-o", "json", "--data-dir", data_dir).json() == []
        first = tutti("run", *arguments)
        assert first.code == 0, first.err
        (web,) = tutti("classifiers", "ls", "-o", "json", "--data-dir", data_dir).json()
        assert f"web@{web['model_digest']} was trained, by {mine.parent / 'web.yaml'}" in first.err
        assert first.json()["filter"]["rules"] == [{"rule": "web.junk", "documents": 2}]
        named = tutti("runs", "show", first.json()["run"]["name"], "-o", "json", "--data-dir", data_dir).json()
        assert json.loads(named["spec"]["recipe"])["quality"]["classifiers"] == [f"web@{web['model_digest']}"]
        again = tutti("run", *arguments, "--dry-run")
        assert [stage["reused"] for stage in again.json()] == [True] * 5
