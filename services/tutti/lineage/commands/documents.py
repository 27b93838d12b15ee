"""Documents: what became of each page that a run read."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import click

from tutti.cli.connection import connected, connection_options
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, print_list, print_one, say, say_versions
from tutti.client import Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import list_all
from tutti.contracts.lineage.v1 import ShowDocumentRequest
from tutti.lineage.commands import pagefiles
from tutti.report.documents import listed
from tutti.report.values import shown

SHOWN = 50  # rows of a table, unless another number is asked for
COLUMNS = ("source", "what", "detail", "document")
DUPLICATES = ("source", "what", "stays", "detail")
_STANDS = re.compile(r"\bof documents/[0-9a-f]+(, )?")


@click.group()
def documents() -> None:
    """Show the outcome of each page that was read.

    \b
    tutti documents rejected                          # rejected documents of the newest run, with their rules
    tutti documents rejected --rule gopher_least_words
    tutti documents duplicates --limit 20
    tutti documents find library/ --what kept         # documents whose URL or path contains this
    tutti documents show https://docs.example/os.html # its text
    tutti documents retract https://docs.example/os.html
    """


@documents.command("show", short_help="Show the text and the outcome of a document.")
@click.argument("document")
@output_option
@connection_options
def show(document: str, output: str, **where: Any) -> None:
    """Show the text and the outcome of DOCUMENT (documents/ID, a URL, the path of a page, or a part of these).

    \b
    tutti documents show https://docs.example/os.html
    tutti documents show library/os.html -o json      # a path below the folder of pages
    tutti documents show os.html                      # if no other page has this ending

    If a page was read with several texts, the one of the newest run is shown and the others are listed. For a page that
    was rejected before its text was extracted, the reason is shown.
    """
    with connected(**where) as client:

        def of_page(page: str) -> Plain:
            return plain(client.lineage.ShowDocument(ShowDocumentRequest(document=page)))

        found = pagefiles.asked(client, document, of_page)
        found["fate"] = found["fate"] or retracted(client, found)
    if output == JSON:
        print_one(found, output)
        return
    text, others = found.pop("text"), found.pop("versions")
    print_one(found, output)
    say_versions(others)
    if not found["name"]:
        return
    click.echo(f"\n{text}")
    if len(text) < found["characters"]:
        say(f"the first {len(text):,} of {found['characters']:,} characters")


def retracted(client: Client, document: Plain) -> str:
    """A text that says what a retraction does to a document that every run kept so far; else ""."""
    for each in list_all(client, "retractions"):
        if not each.withdrawn and (each.spec.document or each.spec.source) in (document["name"], document["source"]):
            return f"retracted, so every run since {shown(plain(each)['retracted_at'])} leaves it out"
    return ""


def listing_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every list of documents."""
    for option in (
        connection_options,
        output_option,
        click.option(
            "--limit",
            type=click.IntRange(min=1),
            default=None,
            help=f"At most so many  [default: {SHOWN} in a table, all as JSON]",
        ),
        click.option("--run", default="", help="Documents that this run read (default: the newest run)."),
        click.option("--url", "source", default="", help="Documents whose URL or path contains this text."),
    ):
        command = option(command)
    return command


@documents.command("find", short_help="Find documents by a part of their URL or path.")
@click.argument("part", required=False)
@click.option(
    "--what",
    default="",
    help="kept, rejected, rejected/RULE, duplicate, or duplicate/HOW: exact, near, earlier. Of both near and earlier "
    "is duplicate/earlier-near; rejected/contaminated has rejected/contaminated-near too.",
)
@listing_options
def find(part: str | None, what: str, source: str, **options: Any) -> None:
    """Find the pages that a run read by PART of their URL or path, with their outcomes.

    \b
    tutti documents find library/os
    tutti documents find --what duplicate/near --run runs/0f5c2d3e4a5b-1 -o json
    """
    if part and source:
        raise click.UsageError(f"give {part!r} or --url {source!r}, not both")
    print_listed(what, source=part or source, **options)


@documents.command("rejected", short_help="List rejected documents with their rules.")
@click.option(
    "--rule", default="", help="Documents rejected by this rule or for this reason, such as language or not_ok."
)
@listing_options
def rejected(rule: str, **options: Any) -> None:
    """List the rejected pages, each with the rule, the measured value and the threshold.

    \b
    tutti documents rejected --rule language          # with the detected language; und: undetermined
    tutti documents rejected --rule not_ok --limit 10 # responses with an error status

    docs/quality.md explains each rule under the name that is shown here.
    """
    print_listed(f"rejected/{rule}" if rule else "rejected", **options)


@documents.command("duplicates", short_help="List documents dropped as duplicates.")
@listing_options
def duplicates(**options: Any) -> None:
    """List the dropped duplicates, each with the document that was kept instead.

    \b
    tutti documents duplicates --limit 20
    tutti documents find --what duplicate/exact       # or near, earlier, earlier-near
    tutti documents show documents/ID                 # the document that was kept
    """
    print_listed("duplicate", DUPLICATES, **options)


def print_listed(
    what: str,
    columns: Sequence[str] = COLUMNS,
    *,
    source: str,
    run: str,
    limit: int | None,
    output: str,
    **where: Any,
) -> None:
    """Print the pages of a run of which `what` is so, and whose source holds this text."""
    with connected(**where) as client:
        name = resolved(client, "runs", run)
        rows = list(listed(client, name, what, source))
        nothing = "" if rows else none(client, name, what, source)
    limit = limit or (len(rows) if output == JSON else SHOWN)
    shown = [plain(each) for each in rows[:limit]]
    shown = shown if output == JSON else [in_short(each) for each in shown]
    print_list(shown, columns, output, nothing=nothing)
    if len(rows) > limit and output != JSON:
        say(f"{len(rows) - limit:,} more; `--limit {len(rows)}` shows all")


def in_short(row: Plain) -> Plain:
    """A row for a table: a document that stands for it is named once, by its source."""
    return row | {"detail": _STANDS.sub("", row["detail"])} if row["stays"] else row


def none(client: Client, run: str, what: str, source: str) -> str:
    """The message if nothing was found: the query, and what exists."""
    looked = ([f"is {what}"] if what else []) + ([f"has {source!r} in its URL or path"] if source else [])
    there = Counter(each.what for each in listed(client, run, "", ""))
    kind = f"{what.partition('/')[0]}/"
    found = sorted(each for each in there if each.startswith(kind)) or sorted(there)
    which = f"; there are {', '.join(f'{each} ({there[each]:,})' for each in found)}" if what and there else ""
    return f"no page of {run} {' and '.join(looked) or 'was read'}{which}"
