"""The commands of the service evaluation: comparisons and releases."""

import click

from tutti.cli.groups import of_kind
from tutti.evaluation.commands import comparisons, releases


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    comparisons.extend(of_kind(tree, "comparisons"))
    releases.extend(of_kind(tree, "releases"))
