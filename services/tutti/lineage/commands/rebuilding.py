"""The command that rebuilds the graph of lineage from its owners, and waits for it."""

import time
from collections.abc import Callable
from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.output import JSON, NAMED, output_option, print_json, say
from tutti.cli.suggestions import SuggestingGroup
from tutti.cli.waiting import POLL_SECONDS, answers
from tutti.client.plain import Plain, plain
from tutti.contracts.lineage.v1 import Graph, RebuildGraphRequest, ShowGraphRequest

WORD_SECONDS, DEADLINE_SECONDS = 5.0, 600
SIZES = ("vertices", "edges", "manifests")


@click.group(cls=SuggestingGroup, short_help="Rebuild the graph of lineage from its owners.")
def lineage() -> None:
    """The graph from which `tutti trace` and `tutti documents` answer."""


@lineage.command(short_help="Compare the graph with its owners, and correct it.")
@click.option("--dry-run", is_flag=True, help="Print the size of the graph and change nothing.")
@click.option(
    "--deadline",
    type=click.IntRange(min=1),
    default=DEADLINE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Wait at most so long. The rebuild itself continues.",
)
@output_option
@connection_options
def rebuild(dry_run: bool, deadline: int, output: str, **where: Any) -> None:
    """Compare every row of the graph with the owners of resources and with the manifests: add rows that are missing,
    correct those that differ, remove those that nothing states.

    Answers stay complete meanwhile, and runs continue. If it is interrupted, the rebuild continues in the service.
    """
    with connected(**where) as client:
        before = client.lineage.RebuildGraph(RebuildGraphRequest(validate_only=True))
        if dry_run:
            show(before, output)
            return
        client.lineage.RebuildGraph(RebuildGraphRequest())
        after = complete(lambda: client.lineage.ShowGraph(ShowGraphRequest()), deadline)
    if output == JSON:
        print_json({"before": size(before), "after": size(after), "unreadable": after.unreadable})
        return
    click.echo(f"the graph is whole: {words(after)} (before: {words(before)})")
    if after.unreadable:
        say(f"{after.unreadable:,} manifests cannot be read, so their rows were kept; `tutti doctor` names them")


def complete(look: Callable[[], Graph], deadline: float) -> Graph:
    """Look until the graph is whole, and say how far it is. Raises Failure after `deadline` seconds."""
    began = told = time.monotonic()
    for graph in answers(look, lambda: False, POLL_SECONDS):
        if not waits_for(graph):
            break
        now = time.monotonic()
        if now - began > deadline:
            raise Failure(
                f"the graph is not whole after {deadline:,.0f} s: {waits_for(graph)}; the rebuild continues, and "
                f"`tutti doctor` says what holds it up"
            )
        if now - told > WORD_SECONDS:
            told = now
            say(f"waiting: {waits_for(graph)}")
    return graph


def waits_for(graph: Graph) -> str:
    """Describe the kinds, manifests and rows that a rebuild still waits for; "" if the graph is whole."""
    kinds = ", ".join(graph.unlisted[:NAMED])
    more = f" and {len(graph.unlisted) - NAMED} more" if len(graph.unlisted) > NAMED else ""
    parts = [
        f"{kinds}{more} must be listed" if kinds else "",
        f"{graph.unread:,} manifests must be read" if graph.unread else "",
        f"{graph.doubted:,} rows must be compared" if graph.doubted else "",
    ]
    return ", ".join(part for part in parts if part)


def words(graph: Graph) -> str:
    return ", ".join(f"{size(graph)[name]:,} {name}" for name in SIZES)


def size(graph: Graph) -> dict[str, int]:
    return {name: getattr(graph, name) for name in SIZES}


def show(graph: Graph, output: str) -> None:
    if output == JSON:
        found: Plain = plain(graph)
        print_json(found)
        return
    click.echo(words(graph))
    if graph.unreadable:
        click.echo(f"{graph.unreadable:,} manifests cannot be read; `tutti doctor` names them")
    if waits_for(graph):
        click.echo(f"a rebuild is under way, or events are being handled: {waits_for(graph)}")
