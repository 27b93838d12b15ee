"""The commands of the service ingest: classifiers."""

import click

from tutti.cli.groups import of_kind
from tutti.ingest.commands import classifiers


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    classifiers.extend(of_kind(tree, "classifiers"))
