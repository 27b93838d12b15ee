"""Commands for nodes."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import output_option, print_one, say
from tutti.client.plain import plain
from tutti.contracts.scheduler.v1 import ClearNodeRequest


def extend(group: click.Group) -> None:
    """Add the verbs of a node to the group `nodes`."""

    @group.command("clear", short_help="Forget the convictions of a node.")
    @click.argument("node")
    @output_option
    @connection_options
    def clear(node: str, output: str, **where: Any) -> None:
        """Forget that NODE was convicted of wrong results, after its hardware was checked."""
        with connected(**where) as client:
            request = ClearNodeRequest(request_id=fresh_id(), name=resolved(client, "nodes", node))
            print_one(plain(client.scheduler.ClearNode(request)), output)
        say("cleared; jobs use the node again")
