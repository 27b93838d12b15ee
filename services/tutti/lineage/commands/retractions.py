"""Retraction: a page is left out from now on; what it had a part in, how to make that again, and what stays.

Promises: the plan names commands and no command is run; what retraction does not remove is named.
"""

import contextlib
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click

from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.rpc import kinds
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.groups import group
from tutti.cli.identity import fresh_id
from tutti.cli.naming import resolved
from tutti.cli.output import JSON, output_option, patiently, print_json, print_one, say
from tutti.client import READING_SECONDS, Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import full_name, list_all
from tutti.contracts.ingest.v1 import (
    CreateRetractionRequest,
    RetractionSpec,
    WithdrawRetractionRequest,
)
from tutti.contracts.lineage.v1 import Reach, ShowDocumentRequest, ShowReachRequest
from tutti.contracts.pipeline.v1 import (
    RERUN_EFFECT_AGAIN,
    RERUN_EFFECT_PERHAPS,
    RERUN_EFFECT_REUSED,
    PlanRerunsRequest,
    Rerun,
    Run,
)
from tutti.report.documents import listed
from tutti.report.values import printable, shown

MOST = 10_000
FOLDED_SECONDS, LOOK_SECONDS = 20.0, 0.25
_ID = re.compile(r"[0-9a-f]{64}")
EFFECTS = {
    RERUN_EFFECT_REUSED: "reused",
    RERUN_EFFECT_AGAIN: "again",
    RERUN_EFFECT_PERHAPS: "again, unless the dataset comes out the same",
}
EVERY = "every run above"
EVALUATION = "evaluation"  # the stage that reads the texts which dedup takes out of the corpus
STEPS, RUNS = 20, 5  # that are shown to a person; JSON has all
REMOVING = """
These blobs hold other pages too, and `tutti runs again` reuses those of what was read. To be rid of them take the page
out of the folder (of a site: name it in input.crawl.without), carry the recipe out with `tutti run`, which then uses
none of them, and remove them once nothing is wanted any more of the runs that use them (docs/retraction.md)."""


MOVES = (
    "a record without a `url` is named by its line or row: once another stands above it in the file, this means "
    "another record; give the records a `url`, and retract that"
)
_PLACED = re.compile(r"(?!\w+://).+:[0-9]+")


def moves(source: str) -> bool:
    """True if the name gives a record's position in a file, where another record can be later."""
    return _PLACED.fullmatch(source) is not None


def spec_of(wanted: str, reason: str) -> RetractionSpec:
    """A document by its name or id, else a source."""
    if wanted.startswith("documents/") or _ID.fullmatch(wanted):
        return RetractionSpec(document=full_name("documents", wanted), reason=reason)
    return RetractionSpec(source=wanted, reason=reason)


@click.command("retract", short_help="Exclude a page from all datasets made from now on.")
@click.argument("page")
@click.option("--reason", default="", help="Who asked for it, and why; stored with the retraction.")
@click.option("--dry-run", is_flag=True, help="Show the effects, and record nothing.")
@output_option
@connection_options
def retract(page: str, reason: str, dry_run: bool, output: str, **where: Any) -> None:
    """Exclude PAGE from every dataset that is made from now on.

    PAGE is a URL, or a path below an input folder, and means every text that was or will be read from it. Or it is
    documents/ID, and means only this text. The retraction is recorded at once, unless --dry-run is given; `tutti
    documents retractions withdraw` withdraws it. The command deletes nothing and makes nothing again. It lists
    everything that used the page, the commands that make it again without the page, and the data that remains. See
    docs/retraction.md.
    """
    request = CreateRetractionRequest(request_id=fresh_id(), spec=spec_of(page, reason), validate_only=dry_run)
    with connected(**where) as client, patiently("looks for the page in all that was read"):
        try:
            made = client.ingest.CreateRetraction(request, timeout=READING_SECONDS)
        except NotFound as error:
            raise Failure(absent(client, page)) from error
        reach = reached(client, list(made.documents))
        answer = {
            "recorded": not dry_run,
            "already": made.already,
            "retraction": plain(made.retraction),
            "document_count": made.document_count,
            **plain(reach),
            "evaluated": evaluated(list_all(client, "runs", fields=("name", "stages")), reach),
            "plan": plans(client, reach, recorded=not dry_run),
        }
    if output == JSON:
        print_json(answer)
    else:
        show(answer)


def absent(client: Client, page: str) -> str:
    """The reason why there is nothing to retract under a name: the outcome of the page, or how pages are named."""
    with contextlib.suppress(NotFound, InvalidField):
        found = client.lineage.ShowDocument(ShowDocumentRequest(document=page))
        if found.source == page and not found.name:
            return f"{page} is in no dataset, there is nothing to retract: {found.fate}"
    records = placed(client, page)
    there = f"documents named by their place in it: {len(records):,}, such as {records[0]}; " if records else ""
    return (
        f"nothing was read under {page} [NOT_FOUND]; {there}expected a URL or a path as `tutti documents find` lists "
        f"it (a record goes by its `url`, or by FILE:LINE where it has none), or documents/ID; what is not to be "
        f"visited at all: input.crawl.without"
    )


def placed(client: Client, file: str) -> list[str]:
    """The documents of the newest run that are named by their place in a file; none where that is not known yet."""
    found = list[str]()
    if any(list_all(client, "runs", fields=("name",))):
        with contextlib.suppress(NotFound, Refused):
            found += [each.source for each in listed(client, resolved(client, "runs"), "", f"{file}:") if each.document]
    return [source for source in found if source.startswith(f"{file}:")]


def reached(client: Client, documents: Sequence[str]) -> Reach:
    """The runs that used the documents; includes what was read a moment ago. Raises NotFound."""
    until = time.monotonic() + FOLDED_SECONDS
    while True:
        try:
            asked = ShowReachRequest(documents=documents, limit=MOST)
            return client.lineage.ShowReach(asked, timeout=READING_SECONDS)
        except NotFound:
            if time.monotonic() >= until:
                raise
            time.sleep(LOOK_SECONDS)


def plans(client: Client, reach: Reach, *, recorded: bool) -> list[Plain]:
    """For every recipe that used the documents, the command that runs it again, and its effect."""
    asked = PlanRerunsRequest(runs=reach.runs, datasets=reach.datasets, recorded=recorded)
    return [planned(each) for each in client.pipeline.PlanReruns(asked, timeout=READING_SECONDS).reruns]


def planned(rerun: Rerun) -> Plain:
    """The same as plain values; without a command if nothing is to be done."""
    return {
        "run": rerun.run,
        "title": rerun.title,
        "after": EVERY if rerun.after_all else rerun.after,
        "command": f"tutti runs again {rerun.run}" if rerun.needed else "",
        "steps": rerun.steps,
        "stages": [{"name": stage.name, "what": EFFECTS[stage.effect]} for stage in rerun.stages],
    }


def evaluated(every: Iterable[Run], reach: Reach) -> list[str]:
    """The runs, by name, that read one of the documents as an evaluation text."""
    ingests = {name for each in reach.documents for name in each.ingests}
    stages = ((run.name, stage) for run in every for stage in run.stages)
    return sorted({run for run, stage in stages if stage.name == EVALUATION and stage.resource in ingests})


def show(answer: Plain) -> None:
    """All of it for a person."""
    made, documents = answer["retraction"], answer["documents"]
    checkpoints = [each["checkpoint"] for each in answer["checkpoints"]]
    what = printable(made["spec"]["source"] or made["spec"]["document"])
    if answer["already"]:
        click.echo(f"{what} is left out since {shown(made['retracted_at'])} already: {made['name']}")
    elif answer["recorded"]:
        click.echo(f"{what} is left out from now on: {made['name']}")
    else:
        click.echo(f"{what} would be left out")
    for each in documents:
        click.echo(f"  {each['document']}  {printable(each['source'])}")
    if answer["document_count"] > len(documents):
        click.echo(f"  and {answer['document_count'] - len(documents):,} more")
    click.echo("\nIt had a part in")
    for line in parts(answer) or ["nothing: no dataset holds it"]:
        click.echo(f"  {line}")
    click.echo("\nTo make that again without it")
    for line in [line for each in answer["plan"] for line in commands(each)] or ["nothing is to be done"]:
        click.echo(f"  {line}")
    click.echo("\nWhat stays, until you remove it")
    for each in answer["held"]:
        click.echo(f"  {each['blob']}  {used(each['runs'])}")
    for line in (*(f"{each} (its archives)" for each in answer["crawls"]), *checkpoints):
        click.echo(f"  {line}")
    if answer["held"]:
        click.echo(REMOVING)
    if answer["gone"]:
        click.echo("\nGone, so what came of the page there is not told")
    for blob in answer["gone"]:
        click.echo(f"  {blob}")
    if moves(made["spec"]["source"]):
        say(MOVES)
    if answer["truncated"]:
        say("lists are cut after 10,000 entries")
    if not answer["recorded"] and not answer["already"]:
        say("nothing was recorded; without --dry-run it is")


def parts(answer: Plain) -> list[str]:
    """Datasets, steps and checkpoints, a line each."""
    found = []
    if users := answer["evaluated"]:
        found.append(f"{named(users)}  an evaluation text; it stays in use until it is taken out of the folder")
    for each in answer["datasets"]:
        found.append(f"{each['dataset']}  {each['train']} trained on, {each['validation']} held out")
        found += [f"{each['tokenizer']}  learnt from it"] if each["tokenizer"] else []
    for each in answer["lines"]:
        steps = ", ".join(map(str, each["steps"][:STEPS])) + (" …" if each["step_count"] > STEPS else "")
        found.append(f"{each['job']} line {each['line']}  {each['step_count']:,} steps read it: {steps}")
    before = "of a dataset that holds it, before it was read"
    return found + [f"{each['checkpoint']}  {'read it' if each['read'] else before}" for each in answer["checkpoints"]]


def used(runs: Sequence[str]) -> str:
    """A text that names the runs that use a blob."""
    return f"used by {named(runs)}" if runs else "used by no run"


def named(runs: Sequence[str]) -> str:
    return f"{', '.join(runs[:RUNS])}{f' and {len(runs) - RUNS:,} more' if len(runs) > RUNS else ''}"


def commands(plan: Plain) -> list[str]:
    """The commands that apply a retraction to a recipe."""
    if not plan["command"]:
        return [f"{plan['run']} is made without it already"]
    by_word: dict[str, list[str]] = {}
    for stage in plan["stages"]:
        by_word.setdefault(stage["what"], []).append(stage["name"])
    lines = [plan["command"] + (f"   once {plan['after']} has ended" if plan["after"] else "")]
    lines += [f"    {word}: {', '.join(names)}" for word, names in by_word.items()]
    return [*lines, f"    at most {plan['steps']:,} steps are trained"] if plan["steps"] else lines


def recorded() -> click.Group:
    """The group `retractions`: ls, show, withdraw."""
    made = group(kinds.named("retractions"))

    @made.command("withdraw", help="Withdraw a retraction: filters use the pages again from now on.")
    @click.argument("name")
    @output_option
    @connection_options
    def withdraw(name: str, output: str, **where: Any) -> None:
        request = WithdrawRetractionRequest(request_id=fresh_id(), name=full_name("retractions", name))
        with connected(**where) as client:
            print_one(plain(client.ingest.WithdrawRetraction(request)), output)

    return made
