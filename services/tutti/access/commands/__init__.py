"""The commands of the service access: users, invitations, tokens, machines that join, the audit trail."""

import click

from tutti.access.commands.agents import agent
from tutti.access.commands.tokens import token
from tutti.access.commands.trail import audit
from tutti.access.commands.users import users


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    for command in (users, token, agent, audit):
        tree.add_command(command)
