"""Which files a command sends with a recipe."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tutti.chassis.config.recipetext import MOST_FILE_BYTES
from tutti.cli.failures import Failure
from tutti.cli.recipefiles import send
from tutti.contracts.pipeline.v1 import CreateRunRequest, ListRecipeFilesRequest, ListRecipeFilesResponse, RecipeFile

SECRET, OWN = "token: secret\n", "Prefer the shorter one.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recipe's folder, beside a file of the engineer that the recipe must not get."""
    (tmp_path / "hosts.yml").write_text(SECRET)
    recipes = tmp_path / "recipes"
    (recipes / "texts").mkdir(parents=True)
    (recipes / "texts" / "guideline.md").write_text(OWN)
    (recipes / "link.yml").symlink_to(tmp_path / "hosts.yml")
    return recipes


def sent(folder: Path, path: str, *overrides: str) -> Mapping[str, str]:
    def named(asked: ListRecipeFilesRequest) -> ListRecipeFilesResponse:
        return ListRecipeFilesResponse(files=[RecipeFile(key="guideline", path=path)])

    client: Any = SimpleNamespace(pipeline=SimpleNamespace(ListRecipeFiles=named))
    request = CreateRunRequest(recipe="{}", directory=str(folder), overrides=overrides)
    send(client, request)
    return dict(request.files)


def test_a_file_below_the_recipes_folder_is_sent(folder: Path) -> None:
    assert sent(folder, "texts/guideline.md") == {"texts/guideline.md": OWN}
    assert sent(folder, f"{folder}/texts/guideline.md") == {f"{folder}/texts/guideline.md": OWN}


@pytest.mark.parametrize("path", ["../hosts.yml", "link.yml", "texts/../../hosts.yml", "{above}/hosts.yml"])
def test_a_recipe_gets_no_other_file_of_the_engineer(folder: Path, path: str) -> None:
    assert sent(folder, path.format(above=folder.parent)) == {}


@pytest.mark.parametrize("override", ["stages.a.guideline=../hosts.yml", "stages.a.guideline='../hosts.yml'"])
def test_what_the_command_line_names_is_sent(folder: Path, override: str) -> None:
    assert sent(folder, "../hosts.yml", override) == {"../hosts.yml": SECRET}


def test_what_is_not_here_is_left_to_the_platform(folder: Path) -> None:
    assert sent(folder, "nowhere.md") == {}


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x" * (MOST_FILE_BYTES + 1)])
def test_a_file_that_no_recipe_can_have_is_refused(folder: Path, data: bytes) -> None:
    (folder / "bad.md").write_bytes(data)
    with pytest.raises(Failure, match=r"bad\.md"):
        sent(folder, "bad.md")
