"""The command group that every noun has: `ls` and `show`."""

import json
from collections.abc import Mapping
from typing import Any

import click

from tutti.chassis.client import Client
from tutti.chassis.kinds import Kind
from tutti.cli.access import served
from tutti.cli.connection import connection_options, sampling
from tutti.cli.naming import LATEST, newest_checkpoint, resolved, resolved_filter
from tutti.cli.nouns import get_one, list_all
from tutti.cli.output import JSON, output_option, print_list, print_one, say
from tutti.cli.plain import Plain, indented, plain
from tutti.cli.words import Words

NUMBERED = {"checkpoints": ("job", "line", "step"), "topologies": ("job", "version")}
LATER = "~"
"""Behind every time: of what has not begun."""


def titles(noun: Kind, client: Client) -> dict[str, str]:
    """Of a job the title of the newest run that made or reused it; other nouns need none."""
    if noun.plural != "jobs":
        return {}
    runs = sorted(list_all(client, "runs"), key=lambda run: run.started_at.ToNanoseconds())
    return {stage.resource: run.spec.title for run in runs for stage in run.stages}


def row(noun: Kind, message: Any, titled: Mapping[str, str]) -> Plain:
    """A resource as plain values, with what scripts rely on at the top."""
    value = plain(message)
    if noun.plural == "jobs":
        value["ranks"] = message.shape.data_parallel or message.spec.data_parallel
        value["steps"] = message.spec.steps
        version = message.topology_version
        value["topology"] = f"topologies/{message.name.removeprefix('jobs/')}/{version}" if version else ""
        value["title"] = titled.get(message.name, "")
        value["spec"]["training"] = json.loads(message.spec.training)
    if noun.plural == "runs":
        value["title"] = message.spec.title
    if noun.plural == "retractions":
        value |= value["spec"]
    if noun.plural == "topologies":
        value["ranks"] = message.shape.data_parallel
        placed_before_0_2 = ", ".join(sorted({placed.node for placed in message.placement}))
        value["nodes"] = message.nodes or placed_before_0_2
    return value


def for_people(noun: Kind, value: Plain) -> Plain:
    """What a person reads of a resource: of a run the recipe comes last, a line a key."""
    if noun.plural != "runs" or not value["spec"]["recipe"]:
        return value
    recipe = indented(json.loads(value["spec"]["recipe"]))
    return value | {"spec": value["spec"] | {"recipe": ""}, "recipe": recipe.splitlines()}


def in_order(noun: Kind, rows: list[Plain]) -> list[Plain]:
    """Work by when it began, the newest last; all else by name, or by the numbers in it."""
    numbers = NUMBERED.get(noun.plural, ())

    def key(row: Plain) -> tuple[Any, ...]:
        return (row.get("started_at") or LATER).removesuffix("Z"), *(row[field] for field in numbers), row["name"]

    return sorted(rows, key=key)


def group(noun: Kind) -> click.Group:
    """The command group of a noun with `ls` and `show`."""

    @click.group(noun.plural, cls=Words, help=noun.about or f"List and show {noun.plural}.")
    def made() -> None: ...

    @made.command("ls", help=f"List {noun.plural}.")
    @click.option("--filter", "filter_text", default="", help="`field=value` pairs joined by AND.")
    @output_option
    @connection_options
    def ls(filter_text: str, output: str, **where: Any) -> None:
        with served(**where) as client:
            titled, chosen = titles(noun, client), resolved_filter(client, filter_text)
            rows = [row(noun, message, titled) for message in list_all(client, noun.plural, chosen)]
        print_list(in_order(noun, rows), noun.columns, output, nothing=noun.empty)

    @made.command("show", help=f"Show one of the {noun.plural} whole, or the newest.")
    @click.argument("name", default=LATEST)
    @output_option
    @connection_options
    def show(name: str, output: str, **where: Any) -> None:
        with served(**where) as client:
            message = get_one(client, noun.plural, resolved(client, noun.plural, name))
            found = row(noun, message, titles(noun, client))
            checkpoint = newest_checkpoint(client, message) if noun.plural == "runs" else ""
        if output == JSON:
            print_one(found, output)
            return
        print_one(for_people(noun, found), output)
        if checkpoint:
            say(f"to try it: {sampling(checkpoint, where['data_dir'])}")

    return made
