"""Labels of runs on the command line: title, note, tags, and the archive; lists leave out archived runs, and say so.

Promises: where one command changes several runs, every change is checked before the first is made.
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from google.protobuf.field_mask_pb2 import FieldMask

from tutti.chassis.rpc.kinds import Kind
from tutti.cli.connection import connected, connection_options
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved, resolved_filter
from tutti.cli.output import JSON, output_option, print_json, print_list, say
from tutti.client import Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import list_all
from tutti.client.titles import title_of
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.pipeline.v1 import Run, RunLabels, UpdateRunRequest
from tutti.report.values import printable

F = TypeVar("F", bound=Callable[..., Any])
HIDING = "archived=false"
HIDDEN = "archived=true"
COLUMNS = ("name", "title", "tags", "archived")
_ARCHIVED = re.compile(r"\barchived\s*=")

clear_option = click.option("--clear", is_flag=True, help="Remove it.")
filter_option = click.option("--filter", "filter_text", default="", help="Also runs that `runs ls --filter` lists.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Check all changes and make none.")


def labelled(noun: Kind) -> bool:
    """Return whether resources of a kind have titles, notes, tags and an archive."""
    field = noun.message.DESCRIPTOR.fields_by_name.get("labels")
    return field is not None and field.message_type == RunLabels.DESCRIPTOR


def listing_options(noun: Kind) -> Callable[[F], F]:
    """Return a decorator with the options of `ls` for a kind with labels; of another kind, with none."""

    def decorate(command: F) -> F:
        if not labelled(noun):
            return command
        command = click.option("--archived", is_flag=True, help="Also list archived runs.")(command)
        return click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only with this tag; repeatable.")(
            command
        )

    return decorate


def with_tags(filter_text: str, tags: Sequence[str]) -> str:
    """Return a filter that selects only resources with these tags."""
    return " AND ".join([*filter(None, (filter_text.strip(),)), *(f"tags:{tag}" for tag in tags)])


def hides(noun: Kind, filter_text: str, *, archived: bool) -> bool:
    """Return whether a list leaves out archived resources: not if they were requested, or if the filter names them."""
    return labelled(noun) and not archived and not _ARCHIVED.search(filter_text)


def both(filter_text: str, more: str) -> str:
    """Return a filter for the resources that two filters select."""
    return f"{filter_text} AND {more}" if filter_text else more


def say_hidden(client: Client, filter_text: str) -> None:
    """Say how many archived runs a list with this filter leaves out, if any."""
    listed = list_all(client, "runs", both(filter_text, HIDDEN), fields=["name"], damaged=lambda reason: None)
    if hidden := sum(1 for _ in listed):
        say(f"{hidden:,} archived run{' is' if hidden == 1 else 's are'} not listed; --archived lists them too")


def of_run(run: Run) -> Plain:
    """The labels of a run, as scripts rely on them."""
    archived_at = plain(run.labels)["archived_at"]
    return {
        "name": run.name,
        "title": title_of(run),
        "note": run.labels.note,
        "tags": list(run.labels.tags),
        "archived_at": archived_at,
    }


def extend(group: click.Group) -> None:
    """Add the verbs for labels to the group `runs`."""

    @group.command("rename", short_help="Give a run another title.")
    @click.argument("name", metavar="RUN")
    @click.argument("title", required=False)
    @clear_option
    @output_option
    @connection_options
    def rename(name: str, title: str | None, clear: bool, output: str, **where: Any) -> None:
        """Give RUN another TITLE, by which commands find it too; --clear returns to the title of its recipe."""
        if (title is None) != clear:
            raise click.UsageError("give a TITLE, or --clear to return to the title of the recipe")
        with connected(**where) as client:
            run = _update(client, resolved(client, "runs", name), ["title"], title=title or "")
        _print_one(run, output, f"{run.name} has the title {printable(title_of(run))}")

    @group.command("note", short_help="Print or write the note of a run.")
    @click.argument("name", metavar="RUN")
    @click.argument("text", required=False)
    @clear_option
    @output_option
    @connection_options
    def note(name: str, text: str | None, clear: bool, output: str, **where: Any) -> None:
        """Print the note of RUN, or replace it by TEXT; `-` reads TEXT from standard input.

        \b
        tutti runs note words "lr too high, see 5d98"
        tutti runs note words - < note.txt
        """
        if text is not None and clear:
            raise click.UsageError("give a TEXT or --clear, not both")
        if text == "-":
            text = sys.stdin.read()
        with connected(**where) as client:
            full = resolved(client, "runs", name)
            if text is None and not clear:
                found = client.pipeline.GetRun(GetRequest(name=full))
                _print_one(found, output, printable(found.labels.note, kept="\n\t") or f"{full} has no note")
                return
            run = _update(client, full, ["note"], note=text or "")
        _print_one(run, output, f"{run.name} has {'a' if run.labels.note else 'no'} note")

    @group.command("tag", short_help="Add tags to runs, or remove them.")
    @click.argument("names", nargs=-1, metavar="RUN...")
    @click.option("--add", multiple=True, metavar="TAG", help="Add this tag; repeatable.")
    @click.option("--remove", multiple=True, metavar="TAG", help="Remove this tag; repeatable.")
    @filter_option
    @dry_run_option
    @output_option
    @connection_options
    def tag(names: Sequence[str], add: Sequence[str], remove: Sequence[str], filter_text: str, **more: Any) -> None:
        """Add tags to RUNs and remove others; a tag has a-z, 0-9 and ._-, and starts with a letter or digit.

        \b
        tutti runs tag words 5d98 --add baseline --remove draft
        tutti runs tag --filter tags:draft --add reviewed --dry-run
        tutti runs ls --tag baseline
        """
        if not add and not remove:
            raise click.UsageError("give a tag to --add or --remove")
        _change(names, filter_text, UpdateRunRequest(add_tags=add, remove_tags=remove), **more)

    for verb, archived in (("archive", True), ("unarchive", False)):
        _add_archiving(group, verb, archived=archived)


def _add_archiving(group: click.Group, verb: str, *, archived: bool) -> None:
    words = "Leave runs that have ended out of lists; nothing is deleted." if archived else "List archived runs again."

    @group.command(verb, help=f"{words} They keep their names, and `runs show` finds them.")
    @click.argument("names", nargs=-1, metavar="RUN...")
    @filter_option
    @dry_run_option
    @output_option
    @connection_options
    def command(names: Sequence[str], filter_text: str, **more: Any) -> None:
        request = UpdateRunRequest(update_mask=FieldMask(paths=["archived"]), archived=archived)
        narrowed = both(filter_text, HIDING if archived else HIDDEN) if filter_text else ""
        _change(names, narrowed, request, **more)


def _update(client: Client, name: str, mask: Sequence[str], **fields: Any) -> Run:
    request = UpdateRunRequest(request_id=fresh_id(), name=name, update_mask=FieldMask(paths=mask), **fields)
    return client.pipeline.UpdateRun(request)


def _change(
    names: Sequence[str], filter_text: str, wanted: UpdateRunRequest, dry_run: bool, output: str, **where: Any
) -> None:
    """Change the named runs, and those that a filter selects, and print their labels."""
    if not names and not filter_text:
        raise click.UsageError("name a RUN, or several, or select some with --filter, such as --filter state=failed")
    with connected(**where) as client:
        full = [resolved(client, "runs", each) for each in names]
        if filter_text:
            chosen = resolved_filter(client, filter_text)
            full += [run.name for run in list_all(client, "runs", chosen, fields=["name"])]
        runs = list[Run]()
        for checks in [True] if dry_run else [True, False]:
            runs.clear()
            for name in dict.fromkeys(full):
                request = UpdateRunRequest(request_id=fresh_id(), name=name, validate_only=checks)
                request.MergeFrom(wanted)
                runs.append(client.pipeline.UpdateRun(request))
    rows = [of_run(run) for run in runs]
    if output != JSON:
        rows = [each | {"tags": " ".join(each["tags"]), "archived": bool(each["archived_at"])} for each in rows]
    print_list(rows, COLUMNS, output, nothing="no runs like this")
    if dry_run:
        say(f"nothing was changed; without --dry-run, {len(rows):,} run{' is' if len(rows) == 1 else 's are'}")


def _print_one(run: Run, output: str, words: str) -> None:
    if output == JSON:
        print_json(of_run(run))
    else:
        click.echo(words)
