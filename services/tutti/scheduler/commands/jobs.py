"""Commands for training jobs."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import output_option, print_cancelled, print_one, say
from tutti.client.plain import plain
from tutti.contracts.common.v1 import CancelRequest
from tutti.contracts.scheduler.v1 import ReshapeJobRequest


def extend(group: click.Group) -> None:
    """Add the verbs of a job to the group `jobs`."""

    @group.command("reshape", help="Continue a job with another number of data-parallel ranks.")
    @click.argument("job")
    @click.option(
        "--dp", "ranks", type=click.IntRange(1, 2**31 - 1), required=True, help="Number of data-parallel ranks."
    )
    @click.option("--cause", default="asked for on the command line", help="Reason, which is recorded.")
    @click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
    @output_option
    @connection_options
    def reshape(job: str, ranks: int, cause: str, dry_run: bool, output: str, **where: Any) -> None:
        with connected(**where) as client:
            name = resolved(client, "jobs", job)
            request = ReshapeJobRequest(
                request_id=fresh_id(), job=name, data_parallel=ranks, cause=cause, validate_only=dry_run
            )
            print_one(plain(client.scheduler.ReshapeJob(request)), output)
        if dry_run:
            say("nothing was changed; without --dry-run it is recorded")
        else:
            say("recorded; it takes effect from the next checkpoint on: watch `tutti jobs show`")

    @group.command("cancel", help="Cancel a job; its checkpoints are kept.")
    @click.argument("job")
    @output_option
    @connection_options
    def cancel(job: str, output: str, **where: Any) -> None:
        with connected(**where) as client:
            request = CancelRequest(name=resolved(client, "jobs", job), request_id=fresh_id())
            print_cancelled(plain(client.scheduler.CancelJob(request)), output)
