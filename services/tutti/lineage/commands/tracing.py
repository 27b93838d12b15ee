"""Commands that trace a resource to its sources, and to everything made from it."""

import contextlib
import itertools
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import click

from tutti.chassis.errors import InvalidField, NotFound
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import Failure
from tutti.cli.naming import LATEST, resolved
from tutti.cli.nouns import BY_PLURAL
from tutti.cli.output import JSON, NAMED, TEXT, output_option, print_json, print_list, say, say_versions
from tutti.client import Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import list_all
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.lineage.v1 import (
    DIRECTION_DOWN,
    DIRECTION_UP,
    TraceDocumentRequest,
    TraceRequest,
    TraceStepRequest,
)
from tutti.lineage.commands import pagefiles
from tutti.report import passages
from tutti.report.values import brief, printable

REUSED = "reused"
"""Relation of a run to a result that it found made."""
COLUMNS = ("step", "leaf", "row", "sample", "document", "source")
"""Columns of the places where a document was read."""
_INSTEAD = re.compile(r"^dropped as (?!.* evaluation text )[^/]*\b(documents/[0-9a-f]{12})")
"""The prefix of the name of the document that was kept instead of a duplicate, in the fate of the duplicate."""


@contextlib.contextmanager
def hinted(resource: str) -> Iterator[None]:
    """Add a hint to errors about something that was not found."""
    try:
        yield
    except NotFound as error:
        if error.name != resource:
            raise
        raise Failure(
            f"{error.message} [{error.reason}]; expected checkpoints/JOB/LINE/STEP or datasets/NAME "
            f"(`tutti checkpoints ls`, `tutti datasets ls`), documents/ID, the path of a file that a run read, "
            f"or the URL of a page, or a part that no other has, such as array.html (`tutti documents find`)"
        ) from error


@click.command("trace", short_help="Trace a resource to its sources, or to everything made from it.")
@click.argument("resource", required=False)
@click.option("--text", default=None, help="Instead of RESOURCE: find the verbatim spans of this text.")
@click.option("--up", "direction", flag_value="up", default="up", help="To its ancestors (the default).")
@click.option(
    "--down",
    "direction",
    flag_value="down",
    help="To its descendants; for a document, the training steps that used it.",
)
@click.option(
    "--step", type=click.IntRange(1, 2**53 - 1), default=None, help="With a job: the documents that this step used."
)
@click.option(
    "--line", type=click.IntRange(0, 2**31 - 1), default=None, help="Line of the step  [default: the newest of the job]"
)
@click.option(
    "--in",
    "within",
    default="",
    metavar="NAME",
    help="With --text: checkpoint or dataset whose training split is searched (default: the newest with an index).",
)
@click.option(
    "--least",
    type=click.IntRange(1, 2**31 - 1),
    default=None,
    help="With --text: minimum length of a match, in tokens  [default: 8, or the whole text if it is shorter]",
)
@click.option("--limit", type=click.IntRange(1, 2**31 - 1), default=1000, show_default=True)
@output_option
@connection_options
def trace(
    resource: str | None,
    text: str | None,
    direction: str,
    step: int | None,
    line: int | None,
    within: str,
    least: int | None,
    limit: int,
    output: str,
    **where: Any,
) -> None:
    """Trace RESOURCE (a checkpoint, dataset, document, source path) to its sources, or to everything made from it.

    \b
    tutti trace checkpoints/JOB/0/800                # its pages
    tutti trace https://docs.example/os.html --down  # the steps that used it
    tutti trace os.html --down                       # the same, if no other page has this ending
    tutti trace ./texts/training.md                  # a file in a folder that a run read
    tutti trace ./texts --down                       # the results made from a folder
    tutti trace jobs/JOB --step 3                    # the pages that a step used
    tutti trace --text "Return a copy"

    With --text: find the parts of a text that occur verbatim in the training data of a model, with their documents and
    the steps that used those. Only datasets with an index are searched (`index: true` in a recipe); the others are
    listed.
    """
    if (resource is None) == (text is None):
        raise click.UsageError("give a RESOURCE, or --text TEXT, and one of them alone")
    if text == "":
        raise click.UsageError("--text is empty; expected words to look for")
    if step is not None and "/" in (resource or "jobs/") and not (resource or "jobs/").startswith("jobs/"):
        raise click.UsageError(f"--step is one of a job, and {resource!r} is none: tutti trace jobs/JOB --step {step}")
    if text is not None:
        with connected(**where) as client, hinted(within):
            answer = passages.traced(client, text, place(client, within), least=least or 0, limit=limit)
        print_json(answer) if output == JSON else show_passages(answer, least or 0)
        if not (within or answer["passages"]):
            say("--in names another dataset, or a checkpoint")
        return
    assert resource is not None
    with connected(**where) as client, hinted(resource):
        if step is not None:
            job = resolved(client, "jobs", resource)
            newest = client.scheduler.GetJob(GetRequest(name=job)).line if line is None else line
            answer = plain(client.lineage.TraceStep(TraceStepRequest(job=job, line=newest, step=step)))
        else:
            answer = followed(client, resource, direction, limit)
    if output == JSON:
        print_json(answer)
    else:
        show(answer)


def place(client: Client, name: str) -> str:
    """The checkpoint or dataset of this name; without one the newest checkpoint whose dataset has an index, if any has.

    Raises Failure.
    """
    if name:
        return resolved(client, "datasets" if name.startswith("datasets/") else "checkpoints", name)
    rows = [each for each in list_all(client, "checkpoints") if each.state == CHECKPOINT_STATE_COMMITTED]
    if not rows:
        raise Failure("there is no checkpoint yet; name a dataset: --in datasets/VERSION (`tutti datasets ls`)")
    rows.sort(key=lambda each: each.decided_at.ToNanoseconds(), reverse=True)
    jobs = indexed_jobs(client)
    found = next((each.name for each in rows if each.job in jobs), rows[0].name)
    if found.rpartition("/")[0] != rows[0].name.rpartition("/")[0]:
        say(f"looks into {found}: what newer ones were trained on has no index; --in names another")
    return str(found)


def indexed_jobs(client: Client) -> set[str]:
    """The jobs that read a dataset which has an index of verbatim spans."""
    datasets = list_all(client, "datasets", fields=("name", "index"))
    digests = {f"blake3:{each.name.removeprefix('datasets/')}" for each in datasets if each.index}
    jobs = list_all(client, "jobs", fields=("name", "spec"))
    return {each.name for each in jobs if digests & _read(json.loads(each.spec.training or "{}"))}


def _read(training: Plain) -> set[str]:
    """The digests of the datasets that a training reads."""
    return {training.get("dataset", ""), *(each["dataset"] for each in training.get("mixture", []))}


def followed(client: Client, resource: str, direction: str, limit: int) -> Plain:
    """The walk from a resource, or from the one made of the file or folder at this path. Raises NotFound, Failure."""
    try:
        name = named(client, resource)
        return pagefiles.asked(client, name, lambda page: walked(client, page, direction, limit))
    except (NotFound, InvalidField):
        if not os.path.isdir(resource):
            raise
    if made := pagefiles.reading_of(client, resource):
        say(f"{resource} is the folder that {made} read")
        return walked(client, made, direction, limit)
    raise Failure(
        f"{resource} is a folder, and no run has it as its input; expected a file in the input of a run, or the "
        "resource of the stage that read or wrote the folder, as `tutti runs show RUN` lists them"
    )


def named(client: Client, resource: str) -> str:
    """Return the full name of a resource; that of a page or document is resolved by lineage. Raises Failure."""
    plural = resource.partition("/")[0]
    if plural == LATEST:
        return resolved(client, "checkpoints")
    return resolved(client, plural, resource) if plural in BY_PLURAL and not os.path.isfile(resource) else resource


def walked(client: Client, resource: str, direction: str, limit: int) -> Plain:
    """The walk from a resource; of a document that leads down, the steps that saw it too. Raises NotFound."""
    wanted = DIRECTION_DOWN if direction == "down" else DIRECTION_UP
    try:
        answer = plain(client.lineage.Trace(TraceRequest(name=resource, direction=wanted, limit=limit)))
    except NotFound:
        # What was left out before it was a document is nowhere in the graph, but somebody knows why.
        return {"vertices": [], "edges": [], **sightings(client, resource, limit)}
    if direction == "down" and any(each["kind"] == "document" for each in answer["vertices"][:1]):
        seen = sightings(client, answer["vertices"][0]["name"], limit)
        cut = answer["truncated"] or seen["truncated"]
        answer |= seen | {"versions": answer["versions"], "truncated": cut}
    return answer


def sightings(client: Client, document: str, limit: int) -> Plain:
    """The steps that saw a document."""
    return plain(client.lineage.TraceDocument(TraceDocumentRequest(document=document, limit=limit)))


def in_order(vertices: list[Plain]) -> list[Plain]:
    """Checkpoints by job, line and step, where the first of them stands; the rest as it was."""
    at = next((at for at, each in enumerate(vertices) if each["kind"] == "checkpoint"), len(vertices))
    found = [each for each in vertices if each["kind"] == "checkpoint"]
    rest = [each for each in vertices[at:] if each["kind"] != "checkpoint"]
    return [*vertices[:at], *sorted(found, key=lambda each: _place(each["name"])), *rest]


def _place(checkpoint: str) -> tuple[str, int, int]:
    _, job, line, step = checkpoint.split("/")
    return job, int(line), int(step)


def show_sightings(sightings: list[Plain]) -> None:
    """A table a line of a job; what is the same in all of its rows stands above it."""
    for (job, line), every in itertools.groupby(sightings, key=lambda each: (each["job"], each["line"])):
        rows = list(every)
        columns = [name for name in COLUMNS if len({each[name] for each in rows}) > 1]
        alike = {name: rows[0][name] for name in COLUMNS if name not in columns and rows[0][name] != ""}
        same = [brief(printable(each)) if isinstance(each, str) else f"{name} {each}" for name, each in alike.items()]
        click.echo(f"{job} line {line}{''.join(f', {each}' for each in same)}")
        if columns:
            print_list(rows, columns, TEXT, nothing="")


def show(answer: Plain) -> None:
    relations = {each["parent"]: each["relation"] for each in answer.get("edges", [])}
    for vertex in in_order(answer.get("vertices", [])):
        label = f"  {printable(vertex['label'])}" if vertex["label"] else ""
        label += "  (reused it)" if relations.get(vertex["name"]) == REUSED else ""
        click.echo(f"{vertex['kind']:16} {brief(vertex['name'])}{label}")
    show_sightings(answer.get("sightings", []))
    say_versions(answer.get("versions", []))
    if fate := answer.get("fate"):
        say(printable(fate))
        if kept := _INSTEAD.search(fate):
            say(f"`tutti trace {kept[1]} --down` shows the steps that used the document that was kept instead")
    if gone := answer.get("gone"):
        more = f" and {len(gone) - NAMED:,} more" if len(gone) > NAMED else ""
        say(f"blobs are gone, so what they hold of it is not told: {', '.join(gone[:NAMED])}{more}")
    if answer.get("truncated"):
        say("there is more; raise --limit")


def show_passages(answer: Plain, least: int) -> None:
    """Print the passages of a text that have at least `least` tokens, 0 for the default."""
    for passage in answer["passages"]:
        click.echo(f"{passage['begin']:>6}  {next(found := passages.lines(passage))}")
        for line in found:
            click.echo(f"{'':6}  {line}")
    where = " or ".join(answer["datasets"])
    if not answer["passages"] and answer["tokens"] < least:
        say(f"the text has {answer['tokens']} tokens, fewer than --least {least}: nothing was looked for")
    elif not answer["passages"] and not least and answer["tokens"] < passages.LEAST:
        say(f"it stands nowhere as a whole in {where}; --least {max(answer['tokens'] // 2, 1)} finds parts")
    elif not answer["passages"]:
        say(f"no {least or passages.LEAST} tokens of it in a row stand in {where}")
    if gone := passages.unsearched([answer]):
        say(gone)
    if answer["truncated"]:
        say("there are more, and shorter ones; raise --limit")
