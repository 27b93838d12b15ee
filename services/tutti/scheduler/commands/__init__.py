"""The commands of the scheduler: jobs."""

import click

from tutti.cli.groups import of_kind
from tutti.scheduler.commands import jobs


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    jobs.extend(of_kind(tree, "jobs"))
