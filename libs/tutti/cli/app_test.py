"""The command tree as a whole."""

import subprocess
import sys

import click
from click.testing import CliRunner

from tutti.chassis.version import VERSION
from tutti.cli.app import build, tutti
from tutti.cli.exporting import ENDINGS
from tutti.corpus.sampleformats import FORMATS


def test_no_command_waits_for_what_only_others_need() -> None:
    heavy = ("sqlalchemy", "pydantic", "jinja2", "rich", "numpy", "pyarrow", "torch")
    code = f"import sys, tutti.cli.app; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_an_option_and_a_command() -> None:
    for way in ("--version", "version"):
        assert CliRunner().invoke(tutti, [way]).output == f"{VERSION}\n"


def test_the_formats_of_an_export_are_those_that_can_be_written() -> None:
    assert {name: each.ending for name, each in FORMATS.items()} == ENDINGS


def test_a_group_of_things_is_found_by_the_word_for_one() -> None:
    tree = build()
    context = click.Context(tree)
    assert tree.get_command(context, "crawl") is tree.get_command(context, "crawls")
    assert tree.get_command(context, "index") is tree.get_command(context, "indexes")
    assert tree.get_command(context, "run") is not tree.get_command(context, "runs")
    assert tree.get_command(context, "thing") is None


def test_who_cancels_a_run_is_told_what_becomes_of_its_training() -> None:
    assert "a training begins anew" in CliRunner().invoke(build(), ["runs", "cancel", "--help"]).output


def cut_off(group: click.Group, *words: str) -> list[str]:
    """The commands below a group whose line in the list of commands is not whole, on a screen of 80 columns."""
    room, found = 80 - 6 - max(map(len, group.commands)), list[str]()
    for name, command in group.commands.items():
        if command.get_short_help_str(room).endswith("..."):
            found.append(" ".join((*words, name)))
        if isinstance(command, click.Group):
            found += cut_off(command, *words, name)
    return found


def test_what_each_command_does_is_told_whole_in_the_list_of_its_group() -> None:
    assert cut_off(build()) == []
