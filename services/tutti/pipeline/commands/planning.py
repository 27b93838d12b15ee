"""The errors of a recipe, and its effects, shown before anything starts."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from tutti.cli import recipefiles
from tutti.cli.access import consulted, consulted_soon
from tutti.cli.connection import connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.foresight import names_resources
from tutti.cli.output import JSON, output_option, patiently, print_json, print_list, say
from tutti.cli.overrides import Overridable, set_option
from tutti.cli.platform import Platform
from tutti.cli.recipes import recipe_for, source_options
from tutti.cli.runs import READS, naming, read_recipe
from tutti.client import READING_SECONDS
from tutti.client.plain import Plain, plain
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CheckRecipeResponse
from tutti.pipeline.commands import fitting, inputsamples
from tutti.pipeline.commands.sizes import duration, size
from tutti.records.counts import counted
from tutti.report import verdict

COLUMNS = ("stage", "what", "time", "disk", "memory", "why")
NOT_CHECKED = "Not checked: texts after the sample, and the results of its stages, such as enough tokens for a sequence"
LEAST = ("train", "sample")
"""Stages of which a lower bound of the memory is known; of others what they took elsewhere."""

recipe_argument = click.argument("recipe", type=click.Path(path_type=Path), required=False)


def asked(
    recipe: Path | None, data: Path | None, site: str, contact: str, overrides: Sequence[str]
) -> tuple[CheckRecipeRequest, str]:
    """The recipe of a file, or the one over a folder or site, and what to call it. Raises Failure."""
    if recipe is None:
        text, directory, what = recipe_for(data, site, contact), Path.cwd(), "the recipe"
    elif data is not None or site:
        raise Failure("give a RECIPE, or --data, or --site; another folder: --set input.path=FOLDER", MISUSE)
    else:
        text, directory, what = read_recipe(recipe), recipe.resolve().parent, str(recipe)
    return CheckRecipeRequest(recipe=text, overrides=overrides, directory=str(directory)), what


@click.command("check", cls=Overridable, short_help="List all errors of a recipe.")
@recipe_argument
@source_options
@set_option
@output_option
@connection_options
def check(
    recipe: Path | None,
    data: Path | None,
    site: str,
    contact: str,
    overrides: Sequence[str],
    output: str,
    data_dir: Path,
    address: str | None,
) -> None:
    """List all errors of RECIPE at once; nothing is recorded.

    \b
    tutti recipes check mine.yaml --set train.steps=1000

    Each error is a line with the key, the expected value and the given value. The exit code is 0 if there are none,
    else 2. Of a folder, only some records of the first files and a few of each further file of records are read;
    `tutti recipes plan` reads all. A platform is needed only if the recipe names resources that may be in it.
    """
    # It brings pydantic, for which few other commands wait.
    from tutti.cli import recipeclassifiers

    request, what = asked(recipe, data, site, contact, overrides)
    request.all_problems = True

    def ask(platform: Platform) -> CheckRecipeResponse:
        asked = CheckRecipeRequest()
        asked.CopyFrom(request)
        recipefiles.send(platform.client, asked)
        recipeclassifiers.resolve(platform, asked, anew=False)
        return platform.client.pipeline.CheckRecipe(asked, timeout=READING_SECONDS)

    with patiently(READS):
        found = consulted_soon(data_dir, address, ask, names_resources)
    problems = [plain(each) for each in found.problems]
    if output == JSON:
        parts = {name: [plain(each) for each in getattr(found, name)] for name in ("inputs", "forecasts")}
        print_json({"recipe": what, "problems": problems, **parts, "warnings": list(found.warnings)})
    for each in problems if output != JSON else ():
        click.echo(f"{each['key']}: expected {each['expected']}, got {each['seen']}")
    for line in inputsamples.warnings(found.inputs):
        say(line)
    if problems:
        count = len(problems)
        raise Failure(f"{what}: {counted(count, 'problem')}; fix these and check again", MISUSE)
    for line in (*trainings(found), *(f"warning: {each}" for each in found.warnings)):
        say(line)
    say(f"{what} can be run; `tutti recipes plan` says what that takes. {NOT_CHECKED}")


@click.command(
    "plan", cls=Overridable, short_help="Show the stages of a recipe, and the time, disk and memory they need."
)
@recipe_argument
@source_options
@set_option
@click.option(
    "--memory",
    type=fitting.Memory(),
    metavar="BYTES",
    help="Memory of a node, such as 80GB; default: that of the largest registered node.",
)
@output_option
@connection_options
def plan(
    recipe: Path | None,
    data: Path | None,
    site: str,
    contact: str,
    overrides: Sequence[str],
    memory: int | None,
    output: str,
    data_dir: Path,
    address: str | None,
) -> None:
    """Show the stages that RECIPE would run or reuse, and the time, disk and memory they need. Nothing is recorded.

    \b
    tutti recipes plan mine.yaml
    tutti recipes plan --data ./folder --set train.steps=1000

    Time and disk are estimated from the newest run of the same stage on this platform, in proportion to the work.
    Without such a run, those of `make run` on the named machine are used. Memory is the minimum of a training or a
    sample; for other stages it is an estimate, from the resident memory of a process in a benchmark. Values that cannot
    be known, such as those of a site that was not crawled, are left out.

    The exit code is 2 if a training process does not fit into the memory of --memory or of the largest registered node.
    """
    # It brings pydantic, for which few other commands wait.
    from tutti.cli import recipeclassifiers

    request, what = asked(recipe, data, site, contact, overrides)
    request.forecast = True
    with consulted(data_dir, address) as platform, naming(what), patiently(READS):
        recipefiles.send(platform.client, request)
        recipeclassifiers.resolve(platform, request, anew=False)
        found = platform.client.pipeline.CheckRecipe(request, timeout=READING_SECONDS)
        available, where = (memory, "--memory") if memory else fitting.largest(platform.client)
    free = shutil.disk_usage(there(data_dir)).free
    if output == JSON:
        print_json(as_json(found, free))
        fitting.check(found, available, where)
        return
    if found.input_files:
        click.echo(f"input: {counted(found.input_files, 'file')}, {size(found.input_bytes)}")
    for line in inputsamples.lines(found.inputs):
        click.echo(line)
    print_list(rows(found), COLUMNS, output, nothing="a recipe without stages")
    click.echo(total(found, free))
    for line in trainings(found):
        say(line)
    filled = json.loads(found.recipe)
    if "train" in filled:
        train, context = filled["train"], filled["data"]["context"]
        tokens = train["steps"] * train["microbatches"] * train["rows"] * context
        ranks, vocabulary, cores = train["ranks"], filled["tokenizer"]["vocabulary"], os.cpu_count() or 1
        for line in verdict.foreseen(tokens, found.input_bytes, vocabulary=vocabulary, ranks=ranks, cores=cores):
            say(line)
    for line in (*inputsamples.warnings(found.inputs), *(f"warning: {each}" for each in found.warnings)):
        say(line)
    fitting.check(found, available, where)


def trainings(found: CheckRecipeResponse) -> Iterator[str]:
    """A line for each training, with the figures that follow from its recipe alone."""
    for each in found.forecasts:
        parts = (
            f"{each.parameters:,} parameters" if each.parameters else "",
            f"{each.step_tokens:,} tokens in a step" if each.step_tokens else "",
            f"at least {size(each.rank_memory_bytes)} of memory for each process" if each.rank_memory_bytes else "",
        )
        if told := ", ".join(filter(None, parts)):
            yield f"{each.stage}: {told}"


def there(folder: Path) -> Path:
    """The folder, or the nearest above it that there is."""
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())


def rows(found: CheckRecipeResponse) -> list[Plain]:
    """A row a stage, for people."""
    forecasts = {each.stage: plain(each) for each in found.forecasts}
    made = []
    for stage in found.stages:
        told = forecasts.get(stage.name, {})
        figures = {
            "time": duration(told.get("seconds")) if told else "",
            "disk": size(told.get("disk_bytes")) if told else "",
            "memory": size(told.get("memory_bytes"), "at least" if stage.kind in LEAST else "about") if told else "",
        }
        what = "reused" if stage.reused else "runs" if stage.reuse_key else "runs, as its input is new"
        why = "" if stage.reused else told.get("basis", "")
        if stage.reason.startswith("runs again: "):
            why = f"{stage.reason.removeprefix('runs again: ')}; {why}"
        made.append({"stage": stage.name, "what": what, **figures, "why": why})
    return made


def as_json(found: CheckRecipeResponse, free: int) -> Plain:
    """The same for scripts; what is not known is null."""
    forecasts = {each.stage: plain(each) for each in found.forecasts}
    keys = ("seconds", "disk_bytes", "memory_bytes", "rank_memory_bytes", "basis")
    stages = [plain(stage) | {key: forecasts.get(stage.name, {}).get(key) for key in keys} for stage in found.stages]
    sums = {key: known([each[key] for each in stages if not each["reused"]]) for key in ("seconds", "disk_bytes")}
    return {
        "recipe_digest": found.recipe_digest,
        "input_files": found.input_files or None,
        "inputs": [plain(each) for each in found.inputs],
        "input_bytes": found.input_bytes or None,
        "stages": stages,
        **{key: value for key, (value, _) in sums.items()},
        "complete": all(complete for _, complete in sums.values()),
        "free_bytes": free,
    }


def total(found: CheckRecipeResponse, free: int) -> str:
    """All stages together, beside what is free."""
    told = as_json(found, free)
    if all(stage["reused"] for stage in told["stages"]):
        return "all is reused: nothing runs"
    more = "" if told["complete"] else ", and what is not known above"
    need, lack = told["disk_bytes"], ""
    if need > free:
        lack = "; that is not enough: free some, or write fewer checkpoints (train.checkpoint_every)"
    time = f"{duration(told['seconds'])}, and some seconds for each stage to start"
    return f"in all: {time}; {size(need)} of disk{more}; {size(free)} are free{lack}"


def known(values: Iterable[float | None]) -> tuple[float, bool]:
    """The sum of those that are known, and whether all are."""
    listed = list(values)
    return sum(each for each in listed if each is not None), None not in listed


def extend(group: click.Group) -> None:
    """Add both to the group `recipes`."""
    group.add_command(check)
    group.add_command(plan)
