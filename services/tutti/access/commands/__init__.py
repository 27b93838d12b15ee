"""The commands of the service access: users, invitations, the audit trail."""

import click

from tutti.access.commands.users import audit, users


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    tree.add_command(users)
    tree.add_command(audit)
