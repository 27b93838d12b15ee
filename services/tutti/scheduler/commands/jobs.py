"""Commands for training jobs."""

import re
from collections.abc import Callable
from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import output_option, print_cancelled, print_one, say
from tutti.client.plain import plain
from tutti.contracts.common.v1 import CancelRequest, SkippedSteps
from tutti.contracts.scheduler.v1 import ContinuedJob, ExtendJobRequest, ReshapeJobRequest, RewindJobRequest


class Steps(click.ParamType[tuple[int, int]]):
    """Consecutive steps, as FIRST..LAST."""

    name = "FIRST..LAST"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        found = re.fullmatch(r"([0-9]{1,15})\.\.([0-9]{1,15})", str(value))
        steps = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= steps[0] <= steps[1]:
            self.fail(f"{value!r}; expected the first and the last step, such as 40..45", param, ctx)
        return steps


def continued(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that continue a job as a new one."""
    options = (
        click.option("--name", default="", help="Name of the new job, jobs/ID  [default: made from that of JOB]"),
        click.option("--dry-run", is_flag=True, help="Check the request, and change nothing."),
        output_option,
        connection_options,
    )
    for option in reversed(options):
        command = option(command)
    return command


def print_continued(made: ContinuedJob, output: str, *, dry_run: bool) -> None:
    print_one(plain(made), output)
    if dry_run:
        say("nothing was changed; without --dry-run the job is created")
    else:
        say(f"created; watch `tutti jobs show {made.job.removeprefix('jobs/')}`")


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

    @group.command(
        "extend",
        short_help="Train a job for more steps, as a new job.",
        help="Train a job for more steps: a new job, from the newest checkpoint before the decay.",
    )
    @click.argument("job")
    @click.option("--steps", type=click.IntRange(1, 2**53 - 1), required=True, help="Steps of the new job, in total.")
    @click.option("--cause", default="", help="Reason, which is recorded.")
    @continued
    def extend_(job: str, steps: int, cause: str, name: str, dry_run: bool, output: str, **where: Any) -> None:
        with connected(**where) as client:
            old = resolved(client, "jobs", job)
            request = ExtendJobRequest(
                request_id=fresh_id(), job=old, name=name or f"{old}-to-{steps}", steps=steps, cause=cause
            )
            request.validate_only = dry_run
            print_continued(client.scheduler.ExtendJob(request), output, dry_run=dry_run)

    @group.command(
        "rewind",
        short_help="Train a job again from an earlier step.",
        help="Train a job again from an earlier step: a new job, which can leave out data.",
    )
    @click.argument("job")
    @click.option(
        "--to", "step", type=click.IntRange(1, 2**53 - 1), required=True, help="Step at or before which it starts."
    )
    @click.option("--skip", type=Steps(), default=None, help="Steps whose data are left out, such as 40..45.")
    @click.option("--cause", required=True, help="Reason, which is recorded.")
    @continued
    def rewind(
        job: str,
        step: int,
        skip: tuple[int, int] | None,
        cause: str,
        name: str,
        dry_run: bool,
        output: str,
        **where: Any,
    ) -> None:
        with connected(**where) as client:
            old = resolved(client, "jobs", job)
            without = f"-without-{skip[0]}-{skip[1]}" if skip else ""
            request = RewindJobRequest(
                request_id=fresh_id(), job=old, name=name or f"{old}-from-{step}{without}", to_step=step, cause=cause
            )
            request.validate_only = dry_run
            if skip:
                request.skip.CopyFrom(SkippedSteps(first=skip[0], last=skip[1]))
            print_continued(client.scheduler.RewindJob(request), output, dry_run=dry_run)

    @group.command("cancel", help="Cancel a job; its checkpoints are kept.")
    @click.argument("job")
    @output_option
    @connection_options
    def cancel(job: str, output: str, **where: Any) -> None:
        with connected(**where) as client:
            request = CancelRequest(name=resolved(client, "jobs", job), request_id=fresh_id())
            print_cancelled(plain(client.scheduler.CancelJob(request)), output)
