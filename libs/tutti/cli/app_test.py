"""The command tree as a whole."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points

import click
from click.testing import CliRunner

from tutti.chassis.version import VERSION
from tutti.cli.app import COMMANDS, build, tutti


def test_no_command_waits_for_what_only_others_need() -> None:
    heavy = (
        "sqlalchemy",
        "pydantic",
        "jinja2",
        "rich",
        "numpy",
        "pyarrow",
        "torch",
        "cryptography",
        "prometheus_client",
    )
    code = (
        f"import sys, tutti.cli.app; tutti.cli.app.build(); print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_runs_no_recipe_whose_pages_are_missing() -> None:
    found = [line for command in (tutti, build().commands["run"]) for line in (command.help or "").splitlines()]
    runs = [line for line in found if "tutti run recipes/" in line]
    assert runs
    assert [line for line in runs if "--set input.path=" not in line] == []


def test_the_version_is_an_option_and_a_command() -> None:
    for way in ("--version", "version"):
        assert CliRunner().invoke(tutti, [way]).output == f"{VERSION}\n"


def test_a_group_of_things_is_found_by_the_word_for_one() -> None:
    tree = build()
    context = click.Context(tree)
    assert tree.get_command(context, "crawl") is tree.get_command(context, "crawls")
    assert tree.get_command(context, "index") is tree.get_command(context, "indexes")
    assert tree.get_command(context, "run") is not tree.get_command(context, "runs")
    assert tree.get_command(context, "thing") is None


def test_who_cancels_a_run_is_told_what_becomes_of_its_training() -> None:
    output = CliRunner().invoke(build(), ["runs", "cancel", "--help"]).output
    assert "a training starts from the beginning" in " ".join(output.split())


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


def test_each_service_with_commands_adds_them_by_an_entry_point() -> None:
    points = {point.name for point in entry_points(group=COMMANDS)}
    assert points >= {"pipeline", "scheduler", "annotation"}
    assert points <= {point.name for point in entry_points(group="tutti.services")}
    assert {"campaigns", "sample", "trace", "users"} <= set(build().commands)


ALONE = {
    "version",
    "checkpoints inspect",
    "up",
    "down",
    "events catalog",
    "recipes new",
    "stack show",
    "stack adopt",
    "backup",
    "restore",
    "migrate",
}
"""Commands that ask no platform, or work on the stores of a data directory themselves."""


def commands(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, with its words."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *words, name)
        else:
            yield " ".join((*words, name)), command


def test_every_command_that_asks_a_platform_takes_its_address() -> None:
    found = dict(commands(build()))
    with_address = {name for name, each in found.items() if any("--address" in option.opts for option in each.params)}
    assert set(found) - with_address == ALONE
