"""The commands of the service evaluation: releases."""

import click

from tutti.cli.groups import of_kind
from tutti.evaluation.commands import releases


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    releases.extend(of_kind(tree, "releases"))
