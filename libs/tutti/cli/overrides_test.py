"""A key of a recipe that is given without `--set`."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tutti.cli.app import build
from tutti.cli.app_test import commands
from tutti.cli.overrides import SET, Overridable


def refusal(*arguments: str) -> str:
    error = CliRunner().invoke(build(), arguments, prog_name="tutti", standalone_mode=False).exception
    assert isinstance(error, click.UsageError)
    return error.format_message()


@pytest.mark.parametrize(
    ("typed", "instead"),
    [
        ("run a.yaml train.steps=5", "tutti run a.yaml --set train.steps=5"),
        ("run a.yaml steps=5 --set b=1 c.d=2", "tutti run a.yaml --set steps=5 --set b=1 --set c.d=2"),
        ("run --data texts size=mini", "tutti run --data texts --set size=mini"),
        ("sweep a.yaml rate=1,2", "tutti sweep a.yaml --set rate=1,2"),
        ("recipes plan a.yaml stages.tuned.steps=5", "tutti recipes plan a.yaml --set stages.tuned.steps=5"),
    ],
)
def test_the_command_with_it_is_named(typed: str, instead: str) -> None:
    assert f"type `{instead}`" in refusal(*typed.split())


def test_a_file_with_such_a_name_is_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").touch()
    assert "is empty" in refusal("run", "a=b", "--dry-run")
    assert "unexpected extra argument" in refusal("run", "a=b", "c")


def test_help_is_help() -> None:
    assert CliRunner().invoke(build(), ["run", "a=b", "--help"]).exit_code == 0


def test_every_command_with_the_option_says_so() -> None:
    found = [each for _, each in commands(build()) if any(SET in option.opts for option in each.params)]
    assert len(found) >= 5
    assert [each.name for each in found if not isinstance(each, Overridable)] == []
