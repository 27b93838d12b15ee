"""The commands of the service ingest: crawls, classifiers."""

import click

from tutti.cli.groups import of_kind
from tutti.ingest.commands import classifiers, crawls


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    crawls.extend(of_kind(tree, "crawls"))
    classifiers.extend(of_kind(tree, "classifiers"))
