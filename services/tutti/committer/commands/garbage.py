"""The command that lists unreferenced blobs, or deletes them at once instead of when the committer does."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, patiently, print_json, print_list, say
from tutti.client import READING_SECONDS
from tutti.client.plain import plain
from tutti.contracts.committer.v1 import CollectGarbageRequest


@click.command("gc", short_help="Delete blobs of failed attempts that belong to no checkpoint.")
@click.option("--job", default="", help="Only blobs of this job.")
@click.option("--dry-run", is_flag=True, help="List the blobs and delete nothing.")
@output_option
@connection_options
def collect(job: str, dry_run: bool, output: str, **where: Any) -> None:
    """Delete the shards and reports of attempts that belong to no checkpoint.

    The committer does this automatically 10 minutes after the end of an attempt; this command also finds blobs that
    were stored later. It does not touch blobs of running attempts or checkpoints, or newer ones.
    """
    request = CollectGarbageRequest(request_id=fresh_id(), job=job, validate_only=dry_run)
    with connected(**where) as client, patiently("lists what the store holds of every job"):
        if job:
            request.job = resolved(client, "jobs", job)
        found = [plain(each) for each in client.committer.CollectGarbage(request, timeout=READING_SECONDS).garbage]
    if output == JSON:
        print_json(found)
        return
    print_list(found, ("job", "blobs", "bytes", "due_at"), output, nothing="no garbage")
    if dry_run and found:
        say("nothing was removed; without --dry-run all that is due goes")
