"""`tutti scrub`: let every service compare what it stored with its digests, and show what came of it."""

import time
from collections.abc import Mapping
from typing import Any

import click

from tutti.cli.administration import services
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.numbers import FiniteRange
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.client import Client
from tutti.client.plain import plain
from tutti.contracts.admin.v1 import GetScrubRequest, Scrub, StartScrubRequest
from tutti.records.sizes import size
from tutti.report.values import printable

LOOK_SECONDS = 0.2
WORD_SECONDS = 10.0
MEBI = 1 << 20


@click.command("scrub", short_help="Compare everything that is stored with its digest.")
@click.option(
    "--rate",
    type=FiniteRange(min=0),
    default=0.0,
    metavar="MIB",
    help="Read at most MIB MiB a second in each process; 0: no limit.",
)
@click.option("--last", is_flag=True, help="Show the result of the last scrub of each service, and begin none.")
@output_option
@connection_options
def scrub(rate: float, last: bool, output: str, **where: Any) -> None:
    """Compare rows, events and blobs of all services with their digests, and wait for the result.

    Services also do this by themselves, every 7 days (scrub.every_days). Results of stages that are damaged are made
    again, and damaged events are published again; the command names what was repaired and what you must do about the
    rest. `tutti doctor` shows the last result. After Ctrl-C, a platform that runs finishes the scrub.
    """
    with connected(**where) as client:
        names = services(client)
        ended = _last(client, names) if last else _ended(client, names, int(rate * MEBI))
    if output == JSON:
        print_json([{"service": name, **plain(found)} for name, found in ended.items()])
    else:
        _tell(ended)
    damages = sum(len(each.damaged) + each.more_damaged for each in ended.values())
    if damages:
        raise Failure(f"{damages} things are damaged")


def _tell(ended: Mapping[str, Scrub]) -> None:
    every = ended.values()
    for mark, lines in (
        ("ok ", [(name, line) for name, each in ended.items() for line in each.repaired]),
        ("BAD", [(name, line) for name, each in ended.items() for line in each.damaged]),
    ):
        for name, line in lines:
            click.echo(f"{mark}  {name}: {printable(line)}")
    blobs = f"{sum(each.blobs for each in every):,} blobs of {size(sum(each.bytes for each in every))}"
    read = f"{sum(each.rows for each in every):,} rows, {sum(each.records for each in every):,} log records, {blobs}"
    damages = sum(len(each.damaged) + each.more_damaged for each in every)
    repaired, unstated = (sum(len(each.repaired) for each in every), sum(each.unstated for each in every))
    click.echo(f"{read}: {damages} damaged, {repaired} repaired, {unstated} without a digest to compare with")


def _last(client: Client, names: list[str]) -> dict[str, Scrub]:
    found = {name: client.admin.GetScrub(GetScrubRequest(service=name)) for name in names}
    ended = {name: each.last for name, each in found.items() if each.HasField("last")}
    if none := sorted(found.keys() - ended.keys()):
        say(f"nothing was read back yet of {', '.join(none)}")
    return ended


def _ended(client: Client, names: list[str], rate: int) -> dict[str, Scrub]:
    """Begin a scrub of each service and wait until all have ended."""
    asked = {
        name: client.admin.StartScrub(StartScrubRequest(service=name, bytes_per_second=rate)).asked_at for name in names
    }
    ended: dict[str, Scrub] = {}
    told = time.monotonic()
    while True:
        running: dict[str, Scrub] = {}
        for name in [each for each in names if each not in ended]:
            found = client.admin.GetScrub(GetScrubRequest(service=name))
            if found.HasField("last") and found.last.ended_at.ToNanoseconds() >= asked[name].ToNanoseconds():
                ended[name] = found.last
            elif found.HasField("running"):
                running[name] = found.running
        if len(ended) == len(names):
            return {name: ended[name] for name in names}
        if time.monotonic() - told > WORD_SECONDS:
            told = time.monotonic()
            say(f"{len(ended)} of {len(names)} services were read back; {', '.join(map(_progress, running.items()))}")
        time.sleep(LOOK_SECONDS)


def _progress(named: tuple[str, Scrub]) -> str:
    name, found = named
    blobs = f", {found.blobs:,} of {found.total_blobs:,} blobs" if found.total_blobs else ""
    return f"{name}: {found.phase}{blobs}"
