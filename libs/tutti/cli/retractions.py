"""Retraction: a page is left out from now on; what it had a part in, how to make that again, and what stays.

Promises: the plan names commands and no command is run; what retraction does not remove is named.
"""

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from tutti.chassis.client import Client
from tutti.chassis.errors import NotFound
from tutti.cli.access import served
from tutti.cli.connection import connection_options
from tutti.cli.failures import Failure
from tutti.cli.groups import group
from tutti.cli.identity import fresh_id
from tutti.cli.nouns import BY_PLURAL, Noun, full_name
from tutti.cli.output import JSON, READING_SECONDS, output_option, patiently, print_json, print_one, say
from tutti.cli.plain import Plain, plain
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED
from tutti.contracts.ingest.v1 import (
    CreateRetractionRequest,
    RetractionSpec,
    WithdrawRetractionRequest,
)
from tutti.contracts.lineage.v1 import Reach, ReachedRun, ShowReachRequest
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CheckRecipeResponse, Run, Stage

NOUN = Noun(
    "retractions", "retractions", "ingest", "Retraction",
    ("name", "source", "document", "withdrawn", "retracted_at", "reason"),
    "nothing is retracted; `tutti documents retract` does that",
)  # fmt: skip
MOST = 10_000
FOLDED_SECONDS, LOOK_SECONDS = 20.0, 0.25
_ID = re.compile(r"[0-9a-f]{64}")
REUSED, AGAIN, PERHAPS = "reused", "again", "again, unless the dataset comes out the same"
EVERY = "every run above"
READS = ("crawl", "ingest", "evaluation")
ENDED = (STATE_DONE, STATE_FAILED, STATE_CANCELLED)
STEPS = 20  # that are shown to a person; JSON has all


def spec_of(wanted: str, reason: str) -> RetractionSpec:
    """A document by its name or id, else a source."""
    if wanted.startswith("documents/") or _ID.fullmatch(wanted):
        return RetractionSpec(document=full_name("documents", wanted), reason=reason)
    return RetractionSpec(source=wanted, reason=reason)


@click.command("retract", short_help="Leave a page out from now on, as if it never was.")
@click.argument("page")
@click.option("--reason", default="", help="Who asked for it, and why; kept with it.")
@click.option("--dry-run", is_flag=True, help="Say all the same, and record nothing.")
@output_option
@connection_options
def retract(page: str, reason: str, dry_run: bool, output: str, **where: Any) -> None:
    """Leave PAGE out of every dataset from now on, as if it had never been there.

    PAGE is a URL, or a path below an input folder: all that was or will be read under it. Or it is documents/ID: this
    text alone. It is recorded at once, unless --dry-run is given; `tutti documents retractions withdraw` takes it back.
    Nothing is made again or removed by this command: it lists what the page had a part in, says by which commands that
    is made without it, and names what stays. docs/retraction.md tells more.
    """
    request = CreateRetractionRequest(request_id=fresh_id(), spec=spec_of(page, reason), validate_only=dry_run)
    with served(**where) as client, patiently("looks for the page in all that was read"):
        try:
            made = client.ingest.CreateRetraction(request, timeout=READING_SECONDS)
        except NotFound as error:
            raise Failure(
                f"nothing was read under {page} [{error.reason}]; expected a URL or a path as `tutti documents find` "
                f"lists it, or documents/ID; what is not to be visited at all: input.crawl.without"
            ) from error
        reach = reached(client, list(made.documents))
        answer = {
            "recorded": not dry_run,
            "retraction": plain(made.retraction),
            "document_count": made.document_count,
            **plain(reach),
            "plan": list(plans(client, reach, dry_run=dry_run)),
        }
    if output == JSON:
        print_json(answer)
    else:
        show(answer)


def reached(client: Client, documents: Sequence[str]) -> Reach:
    """What they had a part in. What was read a moment ago is known soon. Raises NotFound."""
    until = time.monotonic() + FOLDED_SECONDS
    while True:
        try:
            asked = ShowReachRequest(documents=documents, limit=MOST)
            return client.lineage.ShowReach(asked, timeout=READING_SECONDS)
        except NotFound:
            if time.monotonic() >= until:
                raise
            time.sleep(LOOK_SECONDS)


def plans(client: Client, reach: Reach, *, dry_run: bool) -> Iterator[Plain]:
    """Of every recipe that used the page the command that carries it out again, and what that does."""
    by_name = {each.run: each for each in reach.runs}
    every = sorted(BY_PLURAL["runs"].all(client), key=lambda run: run.started_at.ToNanoseconds())
    taking, later = takers(every, reach), list[Plain]()
    for runs in families(every):
        newest = runs[-1]
        if newest.name in taking:
            later.append(taker_plan(newest, tokenizer=taking[newest.name], read=newest.name in by_name))
            continue
        if not (users := [run for run in runs if run.name in by_name]):
            continue
        used = users[-1]
        found = by_name[used.name]
        if used is newest and not (found.kept or found.duplicates or found.rejected):
            yield {"run": used.name, "title": used.spec.title, "command": "", "after": "", "steps": 0, "stages": []}
            continue
        checked = client.pipeline.CheckRecipe(CheckRecipeRequest(again=used.name), timeout=READING_SECONDS)
        waits = newest.name if newest.state not in ENDED else ""
        yield {
            "run": used.name,
            "title": used.spec.title,
            "after": waits,
            **plan(used.name, found, checked, dry_run=dry_run),
        }
    yield from later


def families(every: Sequence[Run]) -> list[list[Run]]:
    """Runs that carry out the same recipe, or it again with what it takes of others made anew."""
    found: dict[str, list[Run]] = {}
    for run in every:
        found.setdefault(run.spec.origin or run.spec.recipe_digest, []).append(run)
    return [found[recipe] for recipe in sorted(found)]


def takers(every: Sequence[Run], reach: Reach) -> dict[str, bool]:
    """The runs that mix a dataset, or take a tokenizer, in which the page had a part; True where it is the tokenizer.

    `every` run in order of time, since a run takes of earlier ones alone.
    """
    datasets = {each.dataset for each in reach.datasets if each.train}
    tokenizers = {each.tokenizer for each in reach.datasets if each.tokenizer}
    found: dict[str, bool] = {}
    for run in every:
        recipe = json.loads(run.spec.recipe)
        tokenizer = recipe["tokenizer"].get("of", "") in tokenizers
        if tokenizer or datasets & set((recipe.get("mixture") or {"datasets": ()})["datasets"]):
            found[run.name] = tokenizer
        if tokenizer:
            made = [stage.content_digest for stage in run.stages if stage.name == "tokenization"]
            datasets |= {f"datasets/{digest.removeprefix('blake3:')}" for digest in made if digest}
    return found


def taker_plan(run: Run, *, tokenizer: bool, read: bool) -> Plain:
    """What carrying out again a run does that takes of others, once these were made again."""
    anew = {"train", "index", "sample"} if not tokenizer else {"tokenization", "train", "index", "sample"}
    anew |= {"filter", "dedup", "tokenization"} if read else set()
    stages = [{"name": stage.name, "what": AGAIN if stage.name in anew else REUSED} for stage in run.stages]
    return {
        "run": run.name,
        "title": run.spec.title,
        "after": EVERY,
        "command": f"tutti runs again {run.name}",
        "steps": json.loads(run.spec.recipe)["train"]["steps"],
        "stages": stages,
    }


def plan(run: str, found: ReachedRun, checked: CheckRecipeResponse, *, dry_run: bool) -> Plain:
    """What carrying a run out again does: each stage with a word, the steps that are trained at most, and the command.

    There is none where everything would be reused.
    """
    later = AGAIN if found.kept or found.duplicates else REUSED
    trained = AGAIN if found.kept else PERHAPS if found.duplicates else REUSED
    expected = {**dict.fromkeys(READS, AGAIN), "filter": AGAIN, "dedup": later, "tokenization": later}

    def word(stage: Stage) -> str:
        # Before anything is recorded the filter is still the one that was made with the page.
        sure = stage.name in READS or not dry_run
        return REUSED if stage.reused and sure else expected.get(stage.name, trained)

    stages = [{"name": stage.name, "what": word(stage)} for stage in checked.stages]
    trains = any(stage["name"] == "train" and stage["what"] != REUSED for stage in stages)
    steps = json.loads(checked.recipe)["train"]["steps"] if trains else 0
    again = any(stage["what"] != REUSED for stage in stages)
    return {"command": f"tutti runs again {run}" if again else "", "steps": steps, "stages": stages}


def show(answer: Plain) -> None:
    """All of it for a person."""
    made, documents = answer["retraction"], answer["documents"]
    what = made["spec"]["source"] or made["spec"]["document"]
    click.echo(f"{what} is left out from now on: {made['name']}" if answer["recorded"] else f"{what} would be left out")
    for each in documents:
        click.echo(f"  {each['document']}  {each['source']}")
    if answer["document_count"] > len(documents):
        click.echo(f"  and {answer['document_count'] - len(documents):,} more")
    click.echo("\nIt had a part in")
    for line in parts(answer) or ["nothing: no dataset holds it"]:
        click.echo(f"  {line}")
    click.echo("\nTo make that again without it")
    for line in [line for each in answer["plan"] for line in commands(each)] or ["nothing is to be done"]:
        click.echo(f"  {line}")
    click.echo("\nWhat stays, until you remove it")
    for line in (*answer["blobs"], *(f"{each} (its archives)" for each in answer["crawls"])):
        click.echo(f"  {line}")
    for each in answer["checkpoints"]:
        click.echo(f"  {each['checkpoint']}")
    if answer["truncated"]:
        say("lists are cut after 10,000 entries")
    if not answer["recorded"]:
        say("nothing was recorded; without --dry-run it is")


def parts(answer: Plain) -> list[str]:
    """Datasets, steps and checkpoints, a line each."""
    found = []
    for each in answer["datasets"]:
        found.append(f"{each['dataset']}  {each['train']} trained on, {each['validation']} held out")
        found += [f"{each['tokenizer']}  learnt from it"] if each["tokenizer"] else []
    for each in answer["lines"]:
        steps = ", ".join(map(str, each["steps"][:STEPS])) + (" …" if each["step_count"] > STEPS else "")
        found.append(f"{each['job']} line {each['line']}  {each['step_count']:,} steps read it: {steps}")
    before = "of a dataset that holds it, before it was read"
    return found + [f"{each['checkpoint']}  {'read it' if each['read'] else before}" for each in answer["checkpoints"]]


def commands(plan: Plain) -> list[str]:
    """What to do about a recipe."""
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
    made = group(NOUN)

    @made.command("withdraw", help="Let the pages be used again, by every filter from now on.")
    @click.argument("name")
    @output_option
    @connection_options
    def withdraw(name: str, output: str, **where: Any) -> None:
        request = WithdrawRetractionRequest(request_id=fresh_id(), name=full_name("retractions", name))
        with served(**where) as client:
            print_one(plain(client.ingest.WithdrawRetraction(request)), output)

    return made
