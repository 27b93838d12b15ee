"""The commands of the committer: checkpoints, their curves, garbage."""

import click

from tutti.cli.groups import of_kind
from tutti.committer.commands import checkpoints
from tutti.committer.commands.garbage import collect


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    checkpoints.extend(of_kind(tree, "checkpoints"))
    tree.add_command(collect)
