"""Commands for checkpoints."""

from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.identity import fresh_id
from tutti.cli.naming import LATEST, chosen, resolved
from tutti.cli.output import JSON, output_option, patiently, print_json, print_one
from tutti.client import READING_SECONDS, Client
from tutti.client.plain import plain
from tutti.client.resources import list_all
from tutti.committer.commands.curves import show_curve
from tutti.committer.commands.folders import inspect
from tutti.committer.commands.imports import import_folder
from tutti.committer.commands.pruning import prune
from tutti.contracts.committer.v1 import (
    GetCurveRequest,
    PinCheckpointRequest,
    VerifyCheckpointRequest,
)
from tutti.report.results import LIVE


def every(client: Client) -> list[str]:
    """The names of all checkpoints that are not quarantined or pruned, by job, line and step."""
    found = list_all(client, "checkpoints", fields=("name", "job", "line", "step", "state"))
    known = [each for each in found if each.state in LIVE]
    return [each.name for each in sorted(known, key=lambda each: (each.job, each.line, each.step))]


@click.command(
    "verify",
    short_help="Read every byte back, and quarantine damaged checkpoints.",
    help="Read every byte of a checkpoint back (default: of all), and quarantine damaged ones.",
)
@click.argument("names", nargs=-1)
@output_option
@connection_options
def verify(names: tuple[str, ...], output: str, **where: Any) -> None:
    with connected(**where) as client:
        wanted = [resolved(client, "checkpoints", name) for name in names] or every(client)
        results = []
        for name in wanted:
            request = VerifyCheckpointRequest(name=name)
            with patiently(f"reads every byte of {name}"):
                answer = client.committer.VerifyCheckpoint(request, timeout=READING_SECONDS)
            results.append({"name": name, "ok": answer.ok, "bytes": answer.bytes, "problems": list(answer.problems)})
            if output != JSON:
                click.echo(f"{name}  {'holds' if answer.ok else 'DAMAGED'}  {answer.bytes:,} bytes")
                for problem in answer.problems:
                    click.echo(f"  {problem}")
    if output == JSON:
        print_json(results)
    damaged = sum(not result["ok"] for result in results)
    if damaged:
        raise Failure(f"{damaged} of {len(results)} checkpoints are damaged and quarantined; the one before is used")


@click.command(
    "curve",
    short_help="Show the curve of a checkpoint.",
    help="Show loss and metrics of every step up to a checkpoint, including its ancestors.",
)
@click.argument("name", default=LATEST)
@click.option(
    "--points",
    type=click.IntRange(4, 20_000),
    default=1000,
    show_default=True,
    help="Maximum number of steps; if there are more, show the lowest and highest values of each interval.",
)
@click.option("--after", type=click.IntRange(0, 2**53 - 1), default=0, help="Only steps after this one.")
@output_option
@connection_options
def curve(name: str, points: int, after: int, output: str, **where: Any) -> None:
    with connected(**where) as client:
        found = chosen(client, "checkpoints", name)
        request = GetCurveRequest(name=found, after_step=after, max_points=points)
        answer = client.committer.GetCurve(request, timeout=READING_SECONDS)
    if output == JSON:
        print_json(plain(answer))
    else:
        show_curve(answer)


@click.command("pin", help="Protect a checkpoint from pruning, or remove the protection.")
@click.argument("name")
@click.option("--off", is_flag=True, help="Remove the protection.")
@output_option
@connection_options
def pin(name: str, off: bool, output: str, **where: Any) -> None:
    with connected(**where) as client:
        found = resolved(client, "checkpoints", name)
        request = PinCheckpointRequest(request_id=fresh_id(), name=found, pinned=not off)
        print_one(plain(client.committer.PinCheckpoint(request)), output)


def extend(group: click.Group) -> None:
    """Add the verbs of a checkpoint to the group `checkpoints`."""
    for command in (inspect, import_folder, verify, curve, pin, prune):
        group.add_command(command)
