"""The commands of the service annotation: campaigns, preferences, annotators, demonstrations."""

import click

from tutti.annotation.commands import campaigns, demonstrations, exporting, guidelines, importing, inviting, preferences
from tutti.annotation.commands.annotators import annotators
from tutti.cli.groups import of_kind


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    for module in (campaigns, importing, inviting, guidelines, exporting):
        module.extend(of_kind(tree, "campaigns"))
    preferences.extend(of_kind(tree, "preferences"))
    demonstrations.extend(of_kind(tree, "demonstrations"))
    tree.add_command(annotators)
