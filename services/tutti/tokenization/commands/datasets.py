"""Commands that describe a dataset: its languages, bytes per token, and its origin."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.naming import LATEST, resolved
from tutti.cli.output import output_option, print_one
from tutti.report.datasets import described


def extend(group: click.Group) -> None:
    """Give the group `datasets` a `show` that says more than the resource."""

    @group.command("show", short_help="Show a dataset: sizes, languages, tokenizer, ancestry.")
    @click.argument("name", default=LATEST)
    @output_option
    @connection_options
    def show(name: str, output: str, **where: Any) -> None:
        """Show a dataset: sizes, languages, tokenizer, packing, ancestry. NAME is datasets/… or runs/….

        \b
        tutti datasets show datasets/ID -o json
        tutti datasets show runs/0f5c2d3e4a5b-1           # the dataset of this run

        More bytes per token mean that the tokenizer encodes a language better. `mixed_in`: trainings that read it in a
        mixture, each with its share.
        """
        with connected(**where) as client:
            print_one(described(client, resolved(client, "datasets", name)), output)
