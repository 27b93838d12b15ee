"""The commands of the service lineage: trace, retractions, rebuild."""

import click

from tutti.cli.groups import of_kind
from tutti.lineage.commands.rebuilding import lineage
from tutti.lineage.commands.retractions import recorded, retract
from tutti.lineage.commands.tracing import trace


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    tree.add_command(trace)
    tree.add_command(lineage)
    documents = of_kind(tree, "documents")
    documents.add_command(retract)
    documents.add_command(recorded())
