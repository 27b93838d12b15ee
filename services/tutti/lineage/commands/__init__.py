"""The commands of the service lineage: documents, trace, retractions, rebuild."""

import click

from tutti.lineage.commands.documents import documents
from tutti.lineage.commands.rebuilding import lineage
from tutti.lineage.commands.retractions import recorded, retract
from tutti.lineage.commands.tracing import trace


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    tree.add_command(trace)
    tree.add_command(lineage)
    tree.add_command(documents)
    documents.add_command(retract)
    documents.add_command(recorded())
