"""The commands of the service tokenization: datasets as files, tokenizers."""

import click

from tutti.cli.groups import of_kind
from tutti.tokenization.commands import datasets, exporting, tokenizers


def extend(tree: click.Group) -> None:
    """Add them to the tree of the command."""
    datasets.extend(of_kind(tree, "datasets"))
    exporting.extend(of_kind(tree, "datasets"))
    tokenizers.extend(of_kind(tree, "tokenizers"))
