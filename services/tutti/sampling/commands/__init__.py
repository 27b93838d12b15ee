"""The commands of the service sampling: samples, exports, experiences."""

import click

from tutti.cli.groups import of_kind
from tutti.sampling.commands import experiences, samples


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    samples.extend(of_kind(tree, "checkpoints"))
    experiences.extend(of_kind(tree, "experiences"))
    tree.add_command(samples.sample)
