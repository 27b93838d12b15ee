"""The commands of the service chat: serving, deployments, records of answers."""

import click

from tutti.chat.commands import answers, deployments
from tutti.chat.commands.serve import serve
from tutti.cli.groups import of_kind


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    deployments.extend(of_kind(tree, "deployments"))
    answers.extend(of_kind(tree, "answers"))
    tree.add_command(serve)
