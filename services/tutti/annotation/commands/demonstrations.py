"""`tutti demonstrations`: better answers that annotators wrote, their review, and their export."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tutti.backbone.files import RealFiles, publish
from tutti.cli.access import served
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, print_json, print_list, print_one
from tutti.cli.plain import plain
from tutti.cli.targets import written_to
from tutti.cli.words import Words
from tutti.client import Client
from tutti.contracts.annotation.v1 import (
    DEMONSTRATION_STATE_ACCEPTED,
    Demonstration,
    ListDemonstrationsRequest,
    ReviewDemonstrationRequest,
)

COLUMNS = ("id", "annotator", "state", "prompt", "answer", "reviewer", "reason")
SHOWN = 60


@click.group(cls=Words, help="Better answers by annotators: review, export.")
def demonstrations() -> None: ...


@demonstrations.command("ls", short_help="List the demonstrations of a campaign.")
@click.argument("campaign")
@output_option
@connection_options
def ls(campaign: str, output: str, **where: Any) -> None:
    """List the better answers that annotators of CAMPAIGN wrote, with what a second person thinks of them."""
    with served(**where) as client:
        found = list(_every(client, resolved(client, "campaigns", campaign)))
    rows = [{**plain(each), "messages": json.loads(each.line)["messages"]} for each in found]
    for row in rows:
        del row["line"]
    if output != JSON:
        rows = [{**row, **_brief(row["messages"])} for row in rows]
    print_list(rows, COLUMNS, output, nothing="nobody wrote an answer yet; annotators do that with the key E")


def _brief(messages: Any) -> dict[str, str]:
    """The beginnings of the last question and of the answer."""
    asked, answer = (each["content"].replace("\n", " ") for each in messages[-2:])
    return {"prompt": asked[:SHOWN], "answer": answer[:SHOWN]}


@demonstrations.command("accept", short_help="Take demonstrations for good answers.")
@click.argument("campaign")
@click.argument("ids", nargs=-1, required=True)
@output_option
@connection_options
def accept(campaign: str, ids: tuple[str, ...], output: str, **where: Any) -> None:
    """Accept the demonstrations IDS of CAMPAIGN, which somebody else wrote.

    \b
    tutti demonstrations ls trial
    tutti demonstrations accept trial 4f0c… 77ab…
    """
    _review(campaign, ids, output, accepted=True, reason="", where=where)


@demonstrations.command("reject", short_help="Reject demonstrations, with a reason.")
@click.argument("campaign")
@click.argument("ids", nargs=-1, required=True)
@click.option("--reason", required=True, help="In words.")
@output_option
@connection_options
def reject(campaign: str, ids: tuple[str, ...], reason: str, output: str, **where: Any) -> None:
    """Reject the demonstrations IDS of CAMPAIGN, which somebody else wrote.

    \b
    tutti demonstrations reject trial 4f0c… --reason "it is not true"
    """
    _review(campaign, ids, output, accepted=False, reason=reason, where=where)


def _review(
    campaign: str, ids: tuple[str, ...], output: str, *, accepted: bool, reason: str, where: dict[str, Any]
) -> None:
    with connected(**where) as client:
        name = resolved(client, "campaigns", campaign)
        found = [
            client.annotation.ReviewDemonstration(
                ReviewDemonstrationRequest(
                    request_id=fresh_id(), campaign=name, id=each, accepted=accepted, reason=reason
                )
            )
            for each in ids
        ]
    if output == JSON:
        print_json([plain(each) for each in found])
    else:
        click.echo(f"{len(found)} of {name} are {'accepted' if accepted else 'rejected'}")


@demonstrations.command("export", short_help="Write the accepted ones as JSON lines.")
@click.argument("campaign")
@click.option("--to", "path", type=click.Path(path_type=Path), required=True, help="A file that is not there.")
@output_option
@connection_options
def export(campaign: str, path: Path, output: str, **where: Any) -> None:
    """Write the accepted demonstrations of CAMPAIGN to a file, each as a line with `messages`.

    A stage of kind `conversations` reads the file, drops duplicates, and a stage `sft` learns from it.

    \b
    tutti demonstrations export trial --to demonstrations.jsonl
    """
    if path.exists():
        raise Failure(f"{path} exists: choose another file", MISUSE)
    with served(**where) as client:
        name = resolved(client, "campaigns", campaign)
        found = list(_every(client, name))
    kept = sorted(each.line for each in found if each.state == DEMONSTRATION_STATE_ACCEPTED)
    data = "".join(f"{line}\n" for line in kept).encode()
    with written_to(path, "--to"):
        publish(RealFiles(), path.with_name(f".{path.name}.partial"), path, [data])
    print_one({"campaign": name, "file": str(path), "accepted": len(kept), "of": len(found)}, output)


def _every(client: Client, campaign: str) -> Iterator[Demonstration]:
    token = ""
    while True:
        request = ListDemonstrationsRequest(campaign=campaign, page_token=token)
        page = client.annotation.ListDemonstrations(request)
        yield from page.demonstrations
        token = page.next_page_token
        if not token:
            return
