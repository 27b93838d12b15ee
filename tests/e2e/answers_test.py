"""The page of mistakes is what the commands answer."""

import re
import shlex
from pathlib import Path

import click
from tools.mistakes import ALONE, PAGE, SERVED, answers, page

from tests.e2e.command import platform
from tutti.cli.app import build


def test_each_mistake_is_answered_in_one_line_as_the_page_says(tmp_path: Path) -> None:
    served, folder = tmp_path / "served", tmp_path / "work"
    folder.mkdir()
    with platform(served, agents=0):
        found = list(answers(served, folder))
    assert len(found) == len(SERVED) + len(ALONE) >= 60
    assert [each.command for each in found if each.code not in (1, 2, 3)] == []
    assert page(found).splitlines() == PAGE.read_text().splitlines()


def test_each_command_that_an_answer_names_exists() -> None:
    named = re.findall(r"type `tutti ([^`]+)`", PAGE.read_text())
    assert len(named) >= 10
    for words in map(shlex.split, named):
        command: click.Command | None = build()
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None
        known = {option for each in command.params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= known
