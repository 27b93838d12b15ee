"""The commands of the pipeline: what is wrong with a recipe, and what it would do."""

import click

from tutti.cli.groups import of_kind
from tutti.pipeline.commands import planning


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    planning.extend(of_kind(tree, "recipes"))
