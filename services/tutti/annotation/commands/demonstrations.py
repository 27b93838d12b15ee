"""`tutti demonstrations`: better answers that annotators wrote, their review, published versions, and their export."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tutti.annotation.commands import datasetfolders
from tutti.backbone.files import RealFiles
from tutti.backbone.files import publish as publish_file
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, print_json, print_list, print_one
from tutti.cli.targets import written_to
from tutti.cli.waiting import done
from tutti.client import Client
from tutti.client.plain import plain
from tutti.client.resources import full_name
from tutti.contracts.annotation.v1 import (
    CreateDemonstrationsRequest,
    Demonstration,
    DemonstrationsSpec,
    FindDemonstrationsRequest,
    ListWrittenDemonstrationsRequest,
    ReadDemonstrationsRequest,
    ReviewDemonstrationRequest,
)
from tutti.contracts.common.v1 import GetRequest
from tutti.corpus.conversations.conversations import Conversation, from_lines, to_lines
from tutti.records.canonical import bytes_digest

COLUMNS = ("id", "annotator", "state", "prompt", "answer", "reviewer", "reason")
SHOWN = 60
JSONL, TRL, HF = "jsonl", "trl", "hf"


def extend(group: click.Group) -> None:
    """Add review, publication and export to the group `demonstrations`."""
    for command in (written, accept, reject, publish, export):
        group.add_command(command)


@click.command("written", short_help="List the answers that annotators of a campaign wrote.")
@click.argument("campaign")
@output_option
@connection_options
def written(campaign: str, output: str, **where: Any) -> None:
    """List the better answers that annotators of CAMPAIGN wrote, with what a second person thinks of them."""
    with connected(**where) as client:
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


@click.command("accept", short_help="Take demonstrations for good answers.")
@click.argument("campaign")
@click.argument("ids", nargs=-1, required=True)
@output_option
@connection_options
def accept(campaign: str, ids: tuple[str, ...], output: str, **where: Any) -> None:
    """Accept the demonstrations IDS of CAMPAIGN, which somebody else wrote.

    \b
    tutti demonstrations written trial
    tutti demonstrations accept trial 4f0c… 77ab…
    """
    _review(campaign, ids, output, accepted=True, reason="", where=where)


@click.command("reject", short_help="Reject demonstrations, with a reason.")
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
        demonstrations = f"{len(found)} demonstration{'s' if len(found) > 1 else ''} of {name}"
        click.echo(f"{'accepted' if accepted else 'rejected'} {demonstrations}")


@click.command("publish", short_help="Publish the accepted ones as an immutable version.")
@click.argument("campaigns", nargs=-1, required=True)
@click.option("--name", default="", help="Name of the version (default: from its content).")
@output_option
@connection_options
def publish(campaigns: tuple[str, ...], name: str, output: str, **where: Any) -> None:
    """Publish the accepted demonstrations of CAMPAIGNS as an immutable version, each once.

    In a recipe, a stage `sft` learns from the version, or a stage `conversations` filters it first. The same accepted
    demonstrations give the same version.

    \b
    tutti demonstrations publish trial
    tutti demonstrations publish trial second-trial --name helpful-1
    """
    with connected(**where) as client:
        names = sorted({resolved(client, "campaigns", each) for each in campaigns})
        find = client.annotation.FindDemonstrations
        answers = [find(FindDemonstrationsRequest(campaign=each)) for each in names]
        if not any(each.conversations for each in answers):
            raise Failure(
                f"no answer of {', '.join(names)} is accepted: `tutti demonstrations written` lists what annotators "
                f"wrote, a second person accepts it with `tutti demonstrations accept`"
            )
        accepted = [each.accepted for each in answers]
        digests = "\n".join(f"{each.campaign} {each.content_digest}" for each in accepted)
        full = full_name("demonstrations", name or bytes_digest(digests.encode()).removeprefix("blake3:")[:16])
        spec = DemonstrationsSpec(accepted=accepted)
        client.annotation.CreateDemonstrations(CreateDemonstrationsRequest(request_id=full, name=full, spec=spec))
        found = done(lambda: client.annotation.GetDemonstrations(GetRequest(name=full)), gone=lambda: False)
    published = {"demonstrations": full, "content_digest": found.result.content_digest}
    print_one({**published, "conversations": found.conversations, "duplicates": found.duplicates}, output)


@click.command("export", short_help="Write a published version for other tools.")
@click.argument("name")
@click.option("--format", "wanted", type=click.Choice([JSONL, TRL, HF]), default=JSONL, show_default=True)
@click.option("--to", "path", type=click.Path(path_type=Path), required=True, help="File, or folder for hf, to create.")
@output_option
@connection_options
def export(name: str, wanted: str, path: Path, output: str, **where: Any) -> None:
    """Write the published demonstrations NAME.

    jsonl is a file of lines with `messages`, as stages of kind `conversations` read them. trl has lines with `prompt`
    and `completion`, each a list of messages, as TRL's SFTTrainer reads them. hf is a folder with `train.jsonl` and a
    dataset card, which datasets.load_dataset reads and which can be uploaded to Hugging Face.

    \b
    tutti demonstrations export helpful-1 --to demonstrations.jsonl
    tutti demonstrations export helpful-1 --format hf --to helpful-1
    """
    if path.exists():
        raise Failure(f"{path} exists: choose another {'folder' if wanted == HF else 'file'}", MISUSE)
    with connected(**where) as client:
        full = resolved(client, "demonstrations", name)
        digest = client.annotation.GetDemonstrations(GetRequest(name=full)).result.content_digest
        found = list(from_lines(Conversation, b"".join(_read(client, full))))
    data = "".join(map(_trl, found)).encode() if wanted == TRL else to_lines(found)
    with written_to(path, "--to"):
        if wanted == HF:
            about = (
                f"{len(found)} demonstrations that annotators wrote and other people accepted, as conversations "
                f"(`messages` with `role` and `content`)."
            )
            datasetfolders.write(path, data, title=full, about=about, digest=digest)
        else:
            publish_file(RealFiles(), path.with_name(f".{path.name}.partial"), path, [data])
    print_one({"demonstrations": full, "format": wanted, "to": str(path), "conversations": len(found)}, output)


def _read(client: Client, name: str) -> Iterator[bytes]:
    offset = 0
    while data := client.annotation.ReadDemonstrations(ReadDemonstrationsRequest(name=name, offset=offset)).data:
        offset += len(data)
        yield data


def _trl(conversation: Conversation) -> str:
    """A line in the conversational prompt-completion format of TRL."""
    *prompt, answer = [each.to_json() for each in conversation.messages]
    return json.dumps({"prompt": prompt, "completion": [answer]}, ensure_ascii=False) + "\n"


def _every(client: Client, campaign: str) -> Iterator[Demonstration]:
    token = ""
    while True:
        request = ListWrittenDemonstrationsRequest(campaign=campaign, page_token=token)
        page = client.annotation.ListWrittenDemonstrations(request)
        yield from page.demonstrations
        token = page.next_page_token
        if not token:
            return
