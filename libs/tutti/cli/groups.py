"""The command group that every noun has: `ls` and `show`."""

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

import click

from tutti.chassis.rpc.kinds import Kind
from tutti.cli import INTERRUPTED, interrupt, labels
from tutti.cli.connection import connected, connection_options
from tutti.cli.naming import LATEST, TIMES, resolved, resolved_filter
from tutti.cli.nouns import FILTERS
from tutti.cli.output import JSON, output_option, print_list, print_one, say, say_damaged
from tutti.cli.suggestions import SuggestingGroup
from tutti.cli.waiting import answers
from tutti.client import Client
from tutti.client.plain import Plain, indented, plain
from tutti.client.resources import get_one, list_all
from tutti.client.titles import title_of
from tutti.report.comparing import training_of
from tutti.report.hints import tries
from tutti.report.results import models
from tutti.report.values import shown
from tutti.web.formats import duration

NUMBERED = {"checkpoints": ("job", "line", "step"), "topologies": ("job", "version")}
UNITS = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))
WATCH_SECONDS = 1.0
ZERO_TIME = "1970-01-01T00:00:00Z"
OF_TRAININGS = ("step", "loss", "bits_per_byte", "parameters")
"""Figures of the newest training of a run that are at the top of its row."""
ABOVE = (*OF_TRAININGS, "labels", "archived")
"""Fields of a run that people see elsewhere: in its figures, and in lines of their own."""
LATER = "~"
"""Behind every time: of what has not begun."""


def of_kind(tree: click.Group, name: str) -> click.Group:
    """Return the group of the command tree with that name, such as `jobs`. Raises KeyError."""
    found = tree.commands[name]
    assert isinstance(found, click.Group)
    return found


def titles(noun: Kind, client: Client) -> dict[str, str]:
    """Titles of jobs: that of the newest run that made or reused each; other nouns have none."""
    if noun.plural != "jobs":
        return {}
    runs = sorted(list_all(client, "runs", damaged=say_damaged), key=lambda run: run.started_at.ToNanoseconds())
    return {stage.resource: title_of(run) for run in runs for stage in run.stages}


def row(noun: Kind, message: Any, titled: Mapping[str, str]) -> Plain:
    """A resource as plain values, with what scripts rely on at the top."""
    value = plain(message)
    if noun.plural == "jobs":
        value["ranks"] = message.shape.data_parallel or message.spec.data_parallel
        value["steps"] = message.spec.steps
        value["loss"] = value["loss"] if message.step else None
        version = message.topology_version
        value["topology"] = f"topologies/{message.name.removeprefix('jobs/')}/{version}" if version else ""
        value["title"] = titled.get(message.name, "")
        value["spec"]["training"] = json.loads(message.spec.training)
    if noun.plural == "runs":
        value["title"] = title_of(message)
        training = plain(training_of(message))
        value |= {name: training[name] if training["job"] else None for name in OF_TRAININGS}
        value |= {"tags": list(message.labels.tags), "archived": message.labels.HasField("archived_at")}
    if noun.plural == "retractions":
        value |= value["spec"]
    if noun.plural == "topologies":
        value["ranks"] = message.shape.data_parallel
        placed_before_0_2 = ", ".join(sorted({placed.node for placed in message.placement}))
        value["nodes"] = message.nodes or placed_before_0_2
    return value


def for_people(noun: Kind, value: Plain) -> Plain:
    """Format a resource for people: a run with a line for each stage, and its recipe last; a job's history with times;
    a sampling with its zeros.

    `-o json` has all fields.
    """
    if noun.plural == "jobs":
        told = zip(value.pop("history_times"), value.pop("history"), strict=True)
        return value | {"history": [f"{shown(at) if at > ZERO_TIME else '-':20}  {line}" for at, line in told]}
    if value.get("sampling"):
        return value | {"sampling": drawn(value["sampling"])}
    if noun.plural != "runs":
        return value
    others = {name: each for name, each in value.items() if name not in ABOVE}
    if given := value["labels"]:
        others |= {"archived_at": given["archived_at"], "note": given["note"].splitlines()}
    value = others | {"stages": stage_lines(value["stages"])}
    if not (value["spec"] and value["spec"]["recipe"]):
        return value
    recipe = indented(json.loads(value["spec"]["recipe"]))
    return value | {"spec": value["spec"] | {"recipe": ""}, "recipe": recipe.splitlines()}


def drawn(sampling: Plain) -> str:
    """A sampling in words; a temperature of 0 is one, and a top_k of 0 is none."""
    return ", ".join(f"{name} {value:g}" for name, value in sampling.items() if value or name != "top_k")


def stage_lines(stages: Sequence[Plain]) -> list[str]:
    """Each stage as a line: name, state, duration, resource, and its summary or the reason of its state."""
    rows = [
        (
            stage["name"],
            "reused" if stage["reused"] else stage["state"],
            lasted(stage),
            stage["resource"],
            stage["reason"] or stage["summary"],
        )
        for stage in stages
    ]
    widths = [*(max((len(row[at]) for row in rows), default=0) for at in range(4)), 0]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def lasted(stage: Plain) -> str:
    """Return how long an ended stage took; "" if it has not ended, or was reused."""
    if stage["reused"] or not (stage["started_at"] and stage["ended_at"]):
        return ""
    began, ended = (datetime.fromisoformat(stage[each]) for each in ("started_at", "ended_at"))
    return duration((ended - began).total_seconds())


def in_order(noun: Kind, rows: list[Plain]) -> list[Plain]:
    """Work by when it began, the newest last; all else by name, or by the numbers in it."""
    numbers = NUMBERED.get(noun.plural, ())

    def key(row: Plain) -> tuple[Any, ...]:
        return (row.get("started_at") or LATER).removesuffix("Z"), *(row[field] for field in numbers), row["name"]

    return sorted(rows, key=key)


def sorted_by(rows: list[Plain], field: str) -> list[Plain]:
    """Rows by a field, numbers before texts and those without a value last; a `-` before the field reverses the order.

    Raises UsageError for a field that the rows do not have.
    """
    name = field.removeprefix("-")
    known = [each for each in (rows[0] if rows else {}) if not any(isinstance(row[each], dict | list) for row in rows)]
    if rows and name not in known:
        raise click.UsageError(f"no field {name!r} to sort by; expected one of {', '.join(known)}")
    numbers = [each for each in rows if isinstance(each[name], int | float)]
    texts = [each for each in rows if isinstance(each[name], str) and each[name]]
    reverse = field.startswith("-")
    numbers.sort(key=lambda each: each[name], reverse=reverse)
    texts.sort(key=lambda each: each[name], reverse=reverse)
    return [*numbers, *texts, *(each for each in rows if each[name] in (None, ""))]


def aged(noun: Kind) -> tuple[str, ...]:
    """Return the columns that people see: instead of when something began, how long ago that was."""
    fields = noun.message.DESCRIPTOR.fields_by_name
    if not any(each in fields for each in TIMES):
        return noun.columns
    others = [each for each in noun.columns if each not in (*TIMES, "ended_at")]
    at = others.index("reason") if "reason" in others else len(others)
    return (*others[:at], "age", *others[at:])


def tagged(columns: tuple[str, ...], rows: Sequence[Plain]) -> tuple[str, ...]:
    """Return the columns that people see: with tags, and whether it is archived, where a row has some."""
    more = [each for each in ("tags", "archived") if any(row.get(each) for row in rows)]
    at = columns.index("reason") if "reason" in columns else len(columns)
    return (*columns[:at], *more, *columns[at:])


def told(rows: list[Plain], output: str) -> list[Plain]:
    """Return rows as they are printed: with their age for people, and tags in one text."""
    if output == JSON:
        return rows
    now = datetime.now(UTC)
    return [
        each | {"age": age(each, now)} | ({"tags": " ".join(each["tags"])} if "tags" in each else {}) for each in rows
    ]


def age(row: Plain, now: datetime) -> str:
    """Return how long ago something began, in its largest unit; "-" for what has not."""
    began = next((row[each] for each in TIMES if row.get(each)), None)
    if not began:
        return "-"
    seconds = max(0.0, (now - datetime.fromisoformat(began)).total_seconds())
    unit, size = next((each for each in UNITS if seconds >= each[1]), UNITS[-1])
    return f"{seconds / size:.0f}{unit}"


def look_on(look: Callable[[], list[Plain]], before: list[Plain], columns: Sequence[str], output: str) -> NoReturn:
    """Print the rows that are new or have changed, until Ctrl-C."""
    interrupt.raised()
    seen = {each["name"]: each["revision"] for each in before}
    with contextlib.suppress(KeyboardInterrupt):
        for rows in answers(look, lambda: False, WATCH_SECONDS):
            changed = [each for each in rows if seen.get(each["name"]) != each["revision"]]
            seen |= {each["name"]: each["revision"] for each in changed}
            if changed:
                print_list(changed, columns, output, nothing="", headed=False)
    sys.exit(INTERRUPTED)


def filtering(noun: Kind) -> str:
    """Return the help of a filter, with the fields that a list of a kind can be filtered by."""
    fields = ", ".join(FILTERS.get(noun.plural, ()))
    return f"`field=value` pairs joined by AND{f'; fields: {fields}' if fields else ''}."


def group(noun: Kind) -> click.Group:
    """The command group of a noun with `ls` and `show`."""

    @click.group(noun.plural, cls=SuggestingGroup, help=noun.about or f"List and show {noun.plural}.")
    def made() -> None: ...

    @made.command("ls", help=f"List {noun.plural}.")
    @click.option("--filter", "filter_text", default="", help=filtering(noun))
    @click.option("--sort", "by", default="", metavar="FIELD", help="Sort by a field of -o json; -FIELD reverses.")
    @click.option("-w", "--watch", is_flag=True, help="Continue with changed resources, until Ctrl-C.")
    @labels.listing_options(noun)
    @output_option
    @connection_options
    def ls(
        filter_text: str,
        by: str,
        watch: bool,
        output: str,
        tags: Sequence[str] = (),
        archived: bool = False,
        **where: Any,
    ) -> None:
        named: set[str] = set()
        filter_text = labels.with_tags(filter_text, tags)
        hides = labels.hides(noun, filter_text, archived=archived)

        def leave_out(reason: str) -> None:
            if reason not in named:
                say_damaged(reason)
            named.add(reason)

        def rows() -> list[Plain]:
            titled, chosen = titles(noun, client), resolved_filter(client, filter_text)
            chosen = labels.both(chosen, labels.HIDING) if hides else chosen
            listed = list_all(client, noun.plural, chosen, damaged=leave_out)
            found = in_order(noun, [row(noun, each, titled) for each in listed])
            return sorted_by(found, by) if by else found

        with connected(**where) as client:
            found = told(rows(), output)
            columns = noun.columns if output == JSON else tagged(aged(noun), found)
            print_list(found, columns, output, nothing=noun.empty if not tags else "no runs like this")
            if hides:
                labels.say_hidden(client, resolved_filter(client, filter_text))
            if watch:
                look_on(lambda: told(rows(), output), found, columns, output)

    @made.command("show", help=f"Show one of the {noun.plural} whole, or the newest.")
    @click.argument("name", default=LATEST)
    @output_option
    @connection_options
    def show(name: str, output: str, **where: Any) -> None:
        with connected(**where) as client:
            message = get_one(client, noun.plural, resolved(client, noun.plural, name))
            found = row(noun, message, titles(noun, client))
            made = models(client, message) if noun.plural == "runs" else []
        if output == JSON:
            print_one(found, output)
            return
        print_one(for_people(noun, found), output)
        for label, command in tries(made, where["data_dir"]):
            say(f"{label}: {command}")

    return made
