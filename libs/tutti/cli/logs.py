"""`tutti logs`: what processes wrote about a resource."""

import itertools
import json
import sys
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import click

from tutti.cli import INTERRUPTED, interrupt
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.loglines import LEVELS, Choice, Followed, Line, since, written
from tutti.cli.naming import resolved
from tutti.cli.nouns import BY_PLURAL
from tutti.cli.output import JSON, output_option, say
from tutti.cli.pipedlogs import chosen
from tutti.cli.pipedlogs import newest as newest_of
from tutti.client import Client, Unreachable
from tutti.client.resources import get_one

LOOK_SECONDS = 0.3
NEWEST = 100
PIPED = "-"
FROM_CONTAINERS = "in containers, run `docker compose logs --timestamps | tutti logs -`"


def moment(context: click.Context, parameter: click.Parameter, text: str) -> str:
    """Raises click.BadParameter."""
    try:
        return since(text, datetime.now(UTC)) if text else ""
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r}; expected 30s, 10m, 2h, 1d or 2026-01-31T12:00:00", context, parameter
        ) from error


@click.command("logs", short_help="Show the logs about a run, a job, or everything.")
@click.argument("given", nargs=-1, metavar="[RESOURCE] [-]")
@click.option("-f", "--follow", is_flag=True, help="Continue with new lines, until Ctrl-C.")
@click.option(
    "-n",
    "newest",
    type=click.IntRange(min=0),
    default=NEWEST,
    show_default=True,
    help="Number of newest lines; 0: all.",
)
@click.option(
    "--since", "begin", default="", callback=moment, help="Lines since 30s, 10m, 2h or 1d ago, or since a time (UTC)."
)
@click.option("--level", type=click.Choice(LEVELS), default="debug", help="Minimum level.")
@output_option
@connection_options
def logs(
    given: tuple[str, ...],
    follow: bool,
    newest: int,
    begin: str,
    level: str,
    output: str,
    data_dir: Path,
    address: str | None,
) -> None:
    """Show the logs of services, agents and ranks about RESOURCE, such as runs/NAME or jobs/NAME; without one, all
    logs.

    \b
    tutti logs runs/0f5c2d3e4a5b-1           # its stages, job and checkpoints too
    tutti logs -f jobs/5744e334c6ae491c00c3
    tutti logs --level warning --since 1h
    docker compose logs --timestamps | tutti logs runs/0f5c2d3e4a5b-1 -

    The command reads the files in the data directory, so run it on the machine of the platform. About the newest 32 MiB
    of each process are kept. With `-`, it reads lines of containers from its standard input. With -o json, each line is
    a JSON object, as it was written.
    """
    named = [each for each in given if each != PIPED]
    if len(named) > 1:
        raise click.UsageError(f"expected the name of one resource, got {' '.join(named)}")
    resource = "".join(named)
    if PIPED in given:
        count = piped(Choice(names(resource, data_dir, address), level, begin), output, newest, follow=follow)
        if not count:
            say_nothing(resource)
        return
    if address:
        raise Failure(
            "logs are files of the machine that a platform runs on, and no call sends them: run `tutti logs` there; "
            f"{FROM_CONTAINERS}; `tutti events tail SERVICE` shows from here what happened",
            MISUSE,
        )
    choice = Choice(names(resource, data_dir), level, begin)
    folder = data_dir / "logs"
    if not folder.is_dir():
        raise Failure(f"{folder}: there are no logs; expected a data directory of a platform; {FROM_CONTAINERS}")
    coming = Followed(folder, choice) if follow else None
    seen = written(folder, choice, coming.begins if coming else None)
    lines: deque[Line] | itertools.chain[Line] = deque(seen, maxlen=newest) if newest else itertools.chain(seen)
    count = sum(show(line, output) for line in lines)
    if not count and not coming:
        say_nothing(resource)
    if coming:
        look_on(coming, output)


def say_nothing(resource: str) -> None:
    say(f"no line {f'names {resource}' if resource else 'is so'}; `tutti events tail SERVICE` shows what happened")


def piped(choice: Choice, output: str, newest: int, *, follow: bool) -> int:
    """Show lines of the standard input: the newest once it ends, or each as it comes; how many. Raises Failure."""
    source = sys.stdin.buffer
    if source.isatty():
        raise Failure(f"`-` reads what another command prints: {FROM_CONTAINERS}", MISUSE)
    found = chosen(source, choice)
    try:
        return sum(show(line, output) for line in (found if follow else newest_of(found, newest)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def look_on(coming: Followed, output: str) -> NoReturn:
    """Print what comes, until Ctrl-C, which needs no words."""
    interrupt.raised()
    try:
        while True:
            interrupt.check()
            for line in coming.news():
                show(line, output)
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def show(line: Line, output: str) -> int:
    """Print a line; it counts as one."""
    click.echo(json.dumps(line.fields, ensure_ascii=False) if output == JSON else line.text())
    return 1


def names(resource: str, data_dir: Path, address: str | None = None) -> list[str]:
    """The names that a line about a resource may have; none for all lines. Raises Failure, NotFound."""
    if not resource:
        return []
    kind, slash, rest = resource.partition("/")
    if not (kind and slash and rest):
        raise Failure(f"{resource!r}: expected the name of a resource, such as runs/TITLE or jobs/NAME", MISUSE)
    found = [resource]
    try:
        with connected(data_dir, address) as client:
            resource = resolved(client, kind, resource) if kind in BY_PLURAL else resource
            found = [resource, *beneath(client, kind, resource)]
    except Unreachable:
        if kind == "runs":
            say(
                f"nobody serves {address or data_dir}: shown is what names {resource} itself; after `tutti up "
                f"--detach` the lines about its stages and job are shown too"
            )
    return [name for each in found for name in (each, *of_job(each))]


def beneath(client: Client, kind: str, resource: str) -> list[str]:
    """The resources that belong to a resource: for a run those of its stages. Raises NotFound."""
    found: Any = get_one(client, kind, resource) if kind in BY_PLURAL else None
    return [stage.resource for stage in found.stages if stage.resource] if kind == "runs" else []


def of_job(name: str) -> list[str]:
    """The beginnings of names of what belongs to a job."""
    kind, _, rest = name.partition("/")
    return [f"checkpoints/{rest}", f"topologies/{rest}"] if kind == "jobs" else []
