"""Every noun of the command, against a platform that is up."""

from pathlib import Path

import click
import pytest

from tests.e2e.command import tutti
from tutti.cli.app import build

NOUNS = sorted(
    name
    for name, group in build().commands.items()
    if isinstance(group, click.Group) and "ls" in group.commands
    if not any(each.required for each in group.commands["ls"].params)
)


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_lists_what_it_has(served: Path, noun: str) -> None:
    listed = tutti(noun, "ls", "-o", "json", "--data-dir", served)
    assert listed.code == 0, listed.err
    assert isinstance(listed.json(), list)
