"""Deployments: stopped."""

from typing import Any

import click

from tutti.chat.commands.awaiting import awaited
from tutti.cli.connection import connected, connection_options
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, patiently, print_json
from tutti.client.plain import plain
from tutti.contracts.chat.v1 import DEPLOYMENT_STATE_FAILED, DEPLOYMENT_STATE_STOPPED, StopDeploymentRequest

STOP_SECONDS = 60.0


def extend(group: click.Group) -> None:
    """Add the verb to the group `deployments`."""

    @group.command("stop", short_help="Stop a deployment; `tutti serve` starts it again.")
    @click.argument("name")
    @output_option
    @connection_options
    def stop(name: str, output: str, **where: Any) -> None:
        """End the replicas of deployment NAME, and wait until they have ended.

        Requests in progress end with an error, unless another deployment has the same model.

        \b
        tutti deployments ls
        tutti deployments stop NAME
        """
        with connected(**where) as client:
            full = resolved(client, "deployments", name)
            client.chat.StopDeployment(StopDeploymentRequest(name=full, request_id=fresh_id()))
            ended = (DEPLOYMENT_STATE_STOPPED, DEPLOYMENT_STATE_FAILED)
            with patiently(f"waits until the replicas of {full} have ended"):
                found = awaited(client, full, ended, STOP_SECONDS)
        if output == JSON:
            print_json(plain(found))
        else:
            click.echo(f"{found.name} is {plain(found)['state']}")
