"""The command that prunes checkpoints of jobs, of the jobs of selected runs, and imports.

Promises: every removal is checked before the first is made; a dry run prints the same lists. A job that a run which was
not selected has too is left out, unless it is named.
"""

from collections.abc import Sequence
from typing import Any

import click

from tutti.cli import labels
from tutti.cli.connection import connected, connection_options
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved, resolved_filter
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.client import Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import list_all
from tutti.contracts.committer.v1 import PruneCheckpointsRequest, PruneCheckpointsResponse
from tutti.contracts.pipeline.v1 import Run
from tutti.records.counts import counted
from tutti.records.sizes import size
from tutti.report.values import printable
from tutti.web.formats import duration


@click.command("prune", short_help="Delete old checkpoints of jobs, or imports.")
@click.argument("names", nargs=-1, metavar="JOB|RUN|IMPORT...")
@labels.filter_option
@click.option("--archived", is_flag=True, help="Also archived runs; with --filter, only those of them.")
@click.option(
    "--keep-last", type=click.IntRange(1, 2**31 - 1), default=3, show_default=True, help="Checkpoints of each line."
)
@click.option("--yes", is_flag=True, help="Delete, instead of listing.")
@output_option
@connection_options
def prune(
    names: Sequence[str],
    filter_text: str,
    archived: bool,
    keep_last: int,
    yes: bool,
    output: str,
    **where: Any,
) -> None:
    """Delete all checkpoints of jobs except the last N of each line, or those of imports. Those in use are kept.

    \b
    tutti checkpoints prune first-light --keep-last 1      # lists them, and why others are kept
    tutti checkpoints prune --archived --keep-last 1 --yes # of the trainings of all archived runs
    tutti checkpoints prune --filter tags:draft

    Without --yes, nothing is deleted. The bytes are free after a grace period. A RUN means its newest training. With
    --filter or --archived, a job that another run has too is pruned only if that run is selected as well.
    """
    if archived:
        filter_text = labels.both(filter_text, labels.HIDDEN)
    if not names and not filter_text:
        raise click.UsageError("name a JOB, a RUN or an IMPORT, or several, or select runs with --filter or --archived")
    with connected(**where) as client:
        requests = [_named(client, name, keep_last) for name in names]
        if filter_text:
            requests += [
                PruneCheckpointsRequest(job=job, keep_last=keep_last) for job in _selected(client, filter_text)
            ]
        requests = list({each.job or each.checkpoint: each for each in requests}.values())
        answers = list[PruneCheckpointsResponse]()
        for checks in (True, False) if yes else (True,):
            answers.clear()
            for each in requests:
                each.request_id, each.validate_only = fresh_id(), checks
                answers.append(client.committer.PruneCheckpoints(each))
    found = merged(answers) | {"deleted": yes}
    if output == JSON:
        print_json(found)
    else:
        for line in lines(found):
            click.echo(line)
    say(outcome(found))


def merged(answers: Sequence[PruneCheckpointsResponse]) -> Plain:
    """Return the answers for several jobs as one."""
    total = PruneCheckpointsResponse()
    for each in answers:
        total.checkpoints.extend(each.checkpoints)
        total.kept.extend(each.kept)
        total.bytes += each.bytes
        total.grace_seconds = max(total.grace_seconds, each.grace_seconds)
    return plain(total)


def lines(found: Plain) -> list[str]:
    """Return a line for each checkpoint: first those that are deleted, then those that are kept, with the reasons."""
    verb = "deleted" if found["deleted"] else "would delete"
    gone = [(verb, name, "") for name in found["checkpoints"]]
    kept = [
        ("kept" if found["deleted"] else "would keep", each["name"], "; ".join(each["reasons"]))
        for each in found["kept"]
    ]
    rows = [*gone, *kept]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(2)]
    return [f"{verb:{widths[0]}}  {name:{widths[1]}}  {printable(reasons)}".rstrip() for verb, name, reasons in rows]


def outcome(found: Plain) -> str:
    """Return a sentence about the deleted checkpoints and when their bytes are free, or about a dry run."""
    count = len(found["checkpoints"])
    if not count:
        why = "each checkpoint is kept for the reason beside it" if found["kept"] else "there are no such checkpoints"
        return f"there is nothing to delete: {why}"
    what, nbytes = counted(count, "checkpoint"), size(found["bytes"])
    later = duration(found["grace_seconds"]).removesuffix(" 0 s")
    if found["deleted"]:
        return f"deleted {what}; their {nbytes} become free in {later}"
    return f"nothing was deleted; with --yes, {what} are deleted, and their {nbytes} become free {later} later"


def _named(client: Client, name: str, keep_last: int) -> PruneCheckpointsRequest:
    if name.startswith("checkpoints/"):
        return PruneCheckpointsRequest(checkpoint=resolved(client, "checkpoints", name))
    return PruneCheckpointsRequest(job=resolved(client, "jobs", name), keep_last=keep_last)


def _selected(client: Client, filter_text: str) -> list[str]:
    """Return the jobs of the runs that a filter selects, and say which are left out because other runs have them."""
    chosen = {run.name for run in list_all(client, "runs", resolved_filter(client, filter_text), fields=["name"])}
    users: dict[str, list[str]] = {}
    for run in list_all(client, "runs", fields=["name", "stages"]):
        for job in _jobs(run):
            users.setdefault(job, []).append(run.name)
    selected = []
    for job, runs in users.items():
        others = [each for each in runs if each not in chosen]
        if not others:
            selected.append(job)
        elif len(others) < len(runs):
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            say(f"{job} is left out, because {others[0]}{more}, not selected, has it too; to prune it, name it")
    return selected


def _jobs(run: Run) -> list[str]:
    return list(dict.fromkeys(each.resource for each in run.stages if each.resource.startswith("jobs/")))
