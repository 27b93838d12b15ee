"""Output of commands: tables for people and JSON for scripts on standard output; everything else on standard error."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from tutti.client.plain import Plain, indented
from tutti.report.values import brief, inline, printable, shown

JSON, TEXT = "json", "text"
COLOURS = {
    **dict.fromkeys(("done", "ready", "committed", "published"), "green"),
    **dict.fromkeys(("failed", "lost", "quarantined"), "red"),
    **dict.fromkeys(("running", "starting", "opening", "qualifying", "open"), "cyan"),
    **dict.fromkeys(("queued", "pending", "stopping", "draining", "paused", "cancelled"), "yellow"),
}
SOON_SECONDS = 3.0  # after which a person wonders
NAMED = 5  # of many
output_option = click.option(
    "-o", "--output", type=click.Choice([TEXT, JSON]), default=TEXT, help="Output format: for people, or for scripts."
)


def say(text: str) -> None:
    """A line for the person, or some, beside the data."""
    click.echo(printable(text, kept="\n"), err=True)


def say_damaged(reason: str) -> None:
    """Name what a list leaves out because it is damaged."""
    say(f"left out: {reason}")


def say_versions(others: Sequence[str]) -> None:
    """Tell that the newest text of a page with several texts is shown, and name the other documents."""
    if others:
        more = f" and {len(others) - NAMED:,} more" if len(others) > NAMED else ""
        named = ", ".join(map(brief, others[:NAMED]))
        say(f"this is the newest of {len(others) + 1:,} versions that runs read, before {named}{more}")


@contextlib.contextmanager
def patiently(text: str) -> Iterator[None]:
    """Say what is waited for, when it is not there soon."""
    timer = threading.Timer(SOON_SECONDS, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_json(value: Any) -> None:
    click.echo(indented(value))


def print_list(
    rows: Sequence[Plain],
    columns: Sequence[str],
    output: str,
    *,
    nothing: str,
    heads: Mapping[str, str] | None = None,
    headed: bool = True,
) -> None:
    """Rows as a table of these columns, or whole as JSON; `heads`: of columns that are not called by their names.

    On a terminal a state is coloured, unless NO_COLOR is set.
    """
    if output == JSON:
        print_json(rows)
        return
    if not rows:
        say(nothing)
        return
    numeric = [_numeric(rows, column) for column in columns]
    heads = heads or {}
    lines = [[shown(heads[each]) if each in heads else _head(each) for each in columns]]
    lines += [[shown(row[column], short=True) for column in columns] for row in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    state = list(columns).index("state") if "state" in columns and coloured() else -1
    for line in lines[0 if headed else 1 :]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        if state >= 0 and line[state] in COLOURS:
            cells[state] = click.style(cells[state], fg=COLOURS[line[state]])
        click.echo("  ".join(cells).rstrip())


def coloured() -> bool:
    """Return whether colours may be printed: on a terminal, unless NO_COLOR is set (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_one(row: Plain, output: str) -> None:
    if output == JSON:
        print_json(row)
        return
    row = flat(row)
    width = max(len(key) for key in row)
    for key, value in row.items():
        if value in ("", None, [], 0, False, "unspecified"):
            continue
        if isinstance(value, list) and value and not isinstance(value[0], dict):
            for index, item in enumerate(value):
                click.echo(f"{key if not index else '':{width}}  {printable(str(item))}")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                click.echo(f"{key if not index else '':{width}}  {inline(item)}")
        else:
            click.echo(f"{key:{width}}  {inline(value) if isinstance(value, dict) else shown(value)}")


def print_cancelled(row: Plain, output: str) -> None:
    """Print the outcome of a cancellation."""
    if output == JSON:
        print_json(row)
        return
    reason = f": {printable(row['reason'])}" if row["reason"] else ""
    click.echo(f"{row['name']} is {row['state']}{reason}")
    if row["state"] in ("done", "failed"):
        say("it had ended before; nothing was cancelled")


def flat(row: Plain) -> Plain:
    """The same with dotted keys, where a value is a mapping that holds mappings itself."""
    found: Plain = {}
    for key, value in row.items():
        if isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values()):
            found |= {f"{key}.{inner}": each for inner, each in flat(value).items()}
        else:
            found[key] = value
    return found


def _head(column: str) -> str:
    """The head of a column; the key of a recipe is as it is typed."""
    return column if "." in column else column.replace("_", " ")


def _numeric(rows: Sequence[Plain], column: str) -> bool:
    """Return whether a column has numbers, and nothing else but missing ones."""
    known = [row[column] for row in rows if row[column] is not None]
    return bool(known) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in known)
