"""The commands of the scheduler: jobs and nodes."""

import click

from tutti.cli.groups import of_kind
from tutti.scheduler.commands import jobs, nodes


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    jobs.extend(of_kind(tree, "jobs"))
    nodes.extend(of_kind(tree, "nodes"))
