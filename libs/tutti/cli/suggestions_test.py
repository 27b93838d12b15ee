"""Words of other tools, answered with the commands here."""

import click
import pytest
from click.testing import CliRunner

from tutti.cli.app import build


def refusal(words: str) -> str:
    error = CliRunner().invoke(build(), words.split(), prog_name="tutti", standalone_mode=False).exception
    assert isinstance(error, click.UsageError)
    return error.format_message()


@pytest.mark.parametrize(
    ("typed", "commands"),
    [
        ("rm", ["runs archive", "checkpoints prune"]),
        ("delete words", ["runs archive words", "checkpoints prune words"]),
        ("prune --archived --keep-last 1", ["checkpoints prune --archived --keep-last 1"]),
        ("runs rm words 5d98", ["runs archive words 5d98", "checkpoints prune words 5d98"]),
        ("runs prune", ["checkpoints prune"]),
        ("info", ["status", "runs show"]),
        ("info words", ["runs show words"]),
        ("start now", ["up"]),
        ("start --port 5", ["up --port 5"]),
    ],
)
def test_the_commands_that_are_meant_are_named_with_the_words_that_they_take(typed: str, commands: list[str]) -> None:
    assert refusal(typed).endswith("; type " + " or ".join(f"`tutti {each}`" for each in commands))


@pytest.mark.parametrize("typed", ["jobs rm first", "runs info first", "checkpoints delete first"])
def test_a_word_below_another_group_is_answered_with_the_commands_of_the_group(typed: str) -> None:
    assert "; type" not in refusal(typed)
