"""Carrying a recipe out, and looking on."""

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tutti.backbone.ours import OwnFiles
from tutti.chassis.config.datadir import DEFAULT
from tutti.chassis.errors import InvalidField, Unavailable
from tutti.cli import INTERRUPTED, foresight, labels, recipefiles
from tutti.cli.access import consulted, reached, upheld
from tutti.cli.connection import connected, connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.naming import LATEST, resolved
from tutti.cli.output import JSON, output_option, patiently, print_cancelled, print_json, print_list, say
from tutti.cli.overrides import Overridable, set_option
from tutti.cli.platform import Platform, put_down
from tutti.cli.progress import follow
from tutti.cli.recipes import recipe_for, source_options
from tutti.cli.reports import whole
from tutti.cli.waiting import answers
from tutti.client import READING_SECONDS, Client, Problem, Unreachable
from tutti.client.plain import Plain, plain
from tutti.contracts.common.v1 import STATE_DONE, CancelRequest, GetRequest
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest, Run
from tutti.report.comparing import LETTERS, figures, settings
from tutti.report.facts import Facts
from tutti.report.hints import typed
from tutti.report.summary import summary
from tutti.report.summarytext import lines
from tutti.report.writing import place_of, write

MAX_RECIPE_BYTES = 1 << 20
SOON_SECONDS = 1.0  # for an answer to Ctrl-C
ENDS_WITH_COMMAND = "PLATFORM_ENDS_WITH_COMMAND"
"""In the environment of a command whose caller stops the platform after it, as `make run-stack` does."""
TEXTS = (".txt", ".md", ".html", ".jsonl", ".parquet", ".warc", ".gz", ".zst")
"""Endings of files of texts, which no recipe has."""
READS = "reads the pages whole, to name what is in them; Ctrl-C gives up and nothing is recorded"


dry_run_option = click.option("--dry-run", is_flag=True, help="Check the recipe and show which stages would be reused.")
detach_option = click.option("--detach", is_flag=True, help="Return when the run is recorded; the platform must run.")


def read_recipe(path: Path) -> str:
    """The text of a recipe. Raises click.UsageError, and UnicodeEncodeError for a folder that no request can name."""
    str(path.resolve()).encode()
    if source := source_of(path):
        command = f"{click.get_current_context().command_path} {shlex.join(source)}"
        raise click.UsageError(f"{source[1]!r} is no recipe; type `{command}`")
    try:
        data = path.read_bytes()
        text = data.decode()
    except OSError as error:
        raise click.UsageError(f"recipe {str(path)!r}: {error.strerror}; expected a YAML file") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"recipe {str(path)!r} is not UTF-8 text (byte {error.start}); expected YAML") from error
    if not text.strip():
        raise click.UsageError(f"recipe {str(path)!r} is empty; expected YAML, such as recipes/tiny.yaml")
    if len(data) > MAX_RECIPE_BYTES:
        raise click.UsageError(f"recipe {str(path)!r} has {len(data)} bytes; a recipe has at most {MAX_RECIPE_BYTES}")
    return text


def source_of(path: Path) -> list[str]:
    """Return the options for a folder, a file of texts or a URL that was given as a recipe; none for other paths."""
    scheme, _, rest = str(path).partition(":/")
    if scheme in ("http", "https"):  # a path has lost one of the slashes
        return ["--site", f"{scheme}://{rest.lstrip('/')}", "--contact", "you@example.org"]
    return ["--data", str(path)] if path.is_dir() or path.suffix in TEXTS else []


@contextlib.contextmanager
def naming(recipe: str) -> Iterator[None]:
    """Add the name of the file to errors about the text as a whole."""
    try:
        yield
    except InvalidField as error:
        if error.field != "recipe":
            raise
        raise Failure(f"{recipe}: {error.message.removeprefix('recipe: ')}", MISUSE) from error


@click.command("run", cls=Overridable, short_help="Run a recipe, or the default one over a folder or a site.")
@click.argument("recipe", type=click.Path(path_type=Path), required=False)
@source_options
@set_option
@dry_run_option
@detach_option
@output_option
@connection_options
def run(
    recipe: Path | None,
    data: Path | None,
    site: str,
    contact: str,
    overrides: Sequence[str],
    dry_run: bool,
    detach: bool,
    output: str,
    data_dir: Path,
    address: str | None,
) -> None:
    """Run RECIPE, or with --data or --site the one that `tutti recipes new` prints for it.

    \b
    tutti run --data ./folder                          # HTML, Markdown, text, JSON lines, Parquet, WARC
    tutti run --site https://docs.example/ --contact me@a.example
    tutti recipes new --data ./folder > mine.yaml; tutti run mine.yaml
    tutti run recipes/tiny.yaml --set input.path=./folder --detach

    `tutti recipes plan` estimates time, disk and memory. At its end, the command prints a summary and the path of the
    report.

    An unfinished run of the same recipe is resumed. Finished stages are reused.

    If no platform uses the data directory, the command starts one, and stops it when this run and those of other
    commands have ended. Ctrl-C or SIGTERM stops that platform; the same command resumes the run. If a platform runs
    already (`tutti up --detach`), the run continues without this command: Ctrl-C only stops watching.

    A recipe with an error is refused before a platform is started.

    With --address, the run belongs to that platform, whose service `ingest` reads the folder.
    """
    if recipe is None:
        text, directory, what = recipe_for(data, site, contact), str(Path.cwd()), "the recipe"
    elif data is not None or site:
        raise click.UsageError("give a RECIPE, or --data, or --site; to read another folder: --set input.path=FOLDER")
    else:
        text, directory, what = read_recipe(recipe), str(recipe.resolve().parent), str(recipe)
    # It brings pydantic, for which few other commands wait.
    from tutti.cli import recipeclassifiers

    if dry_run:
        with consulted(data_dir, address) as platform, naming(what):
            request = CheckRecipeRequest(recipe=text, overrides=overrides, directory=directory)
            recipefiles.send(platform.client, request)
            recipeclassifiers.resolve(platform, request, anew=False)
            show_plan(platform.client, request, output)
        return
    wanted = CreateRunRequest(request_id=fresh_id(), recipe=text, overrides=overrides, directory=directory)
    if not address and not detach:
        foresight.refuse(data_dir, wanted, what)
    with upheld(data_dir, address, detach=detach) as platform, naming(what):
        recipefiles.send(platform.client, wanted)
        recipeclassifiers.resolve(platform, wanted, anew=True)
        carry_out(platform, wanted, output, detach=detach)


def show_plan(client: Client, request: CheckRecipeRequest, output: str) -> None:
    """Print which stages would be reused."""
    with patiently(READS):
        checked = client.pipeline.CheckRecipe(request, timeout=READING_SECONDS)
    for each in checked.warnings:
        say(f"warning: {each}")
    rows = [plain(stage) for stage in checked.stages]
    if output != JSON:
        rows = [each | {"reason": "" if each["reused"] else each["reason"]} for each in rows]
    print_list(rows, ("name", "reused", "reason"), output, nothing="a recipe without stages")


def carry_out(platform: Platform, wanted: CreateRunRequest, output: str, *, detach: bool) -> None:
    """Record a run, and look on unless `detach`."""
    with patiently(READS):
        run = created(platform, wanted)
    name = run.name
    if detach:
        if output == JSON:
            print_json({"run": plain(run)})
        else:
            click.echo(name)
        say(f"it goes on: `tutti runs follow {name}`, `tutti runs cancel {name}`")
    else:
        finish(platform, name, output)


def created(platform: Platform, wanted: CreateRunRequest) -> Run:
    """Record a run. A platform that answers but lacks something for now is waited for; repeating has no second effect.

    Raises Unreachable at once where nobody answers.
    """

    def create() -> Run:
        created = platform.client.pipeline.CreateRun(wanted, timeout=READING_SECONDS)
        for each in created.warnings:
            say(f"warning: {each}")
        return created.run

    try:
        return create()
    except Unreachable:
        raise
    except Problem as problem:
        if not problem.transient or platform.ended():
            raise
        say(f"waits for the platform: {problem.message}")
    return next(answers(create, platform.ended))


def left(platform: Platform, name: str) -> str:
    """A sentence that says what happens to a run that is no longer watched."""
    if platform.own or ENDS_WITH_COMMAND in os.environ:
        return f"interrupted; the same command resumes {name}"
    return (
        f"stopped watching; {name} goes on: `tutti runs show {name}`, `tutti runs follow {name}`, "
        f"`tutti runs cancel {name}`"
    )


def again(client: Client, name: str) -> str:
    """Return how much of a training a resumption computes again, in words."""
    with contextlib.suppress(Problem):
        run = client.pipeline.GetRun(GetRequest(name=name), timeout=SOON_SECONDS)
        if run.HasField("training") and run.training.step < run.training.steps:
            job = client.scheduler.GetJob(GetRequest(name=run.training.job), timeout=SOON_SECONDS)
            return recomputed(job.step, job.decided_step)
    return "stages that have ended are kept"


def recomputed(step: int, decided: int) -> str:
    """Return what a training that stops after `step` loses, where its newest checkpoint is of step `decided`."""
    if step == 0:
        return "the training has made no step yet"
    if step <= decided:
        return f"nothing is lost: step {decided:,} is in a checkpoint"
    since = f"since the checkpoint of step {decided:,}" if decided else "since there is no checkpoint yet"
    return f"{step - decided:,} steps will be computed again, {since}"


def reported(facts: Facts, data_dir: Path | None) -> list[str]:
    """The report of a run and its pictures; none where they could not be written, which costs nothing else."""
    if data_dir is None:
        return []
    try:
        return [str(each) for each in write(facts, place_of(data_dir, facts.summary["run"]["name"]), OwnFiles())]
    except OSError as error:
        say(f"no report was written: {error}")
        return []


def finish(platform: Platform, name: str, output: str) -> None:
    """Look on until the run ended, then print what came of it and write its report."""
    client = platform.client
    try:
        done = follow(client, name, quiet=output == JSON, ended=platform.ended, trouble=platform.trouble)
    except KeyboardInterrupt as error:
        if platform.own:
            say(f"stopping; {again(platform.client, name)}")
        raise Failure(left(platform, name), INTERRUPTED) from error
    except Unavailable:
        if not platform.stopped():
            raise
        raise put_down(f"{platform.resumed_by} resumes {name}") from None
    if done.state == STATE_DONE:
        facts = next(answers(lambda: whole(client, name), platform.ended))
        if output == JSON:
            files = reported(facts, platform.data_dir)
            print_json({**facts.summary, "report": files[0] if files else None, "pictures": files[1:]})
        else:
            for line in lines(facts.summary, platform.data_dir or DEFAULT):
                click.echo(line)
            for at, each in enumerate(reported(facts, platform.data_dir)):
                click.echo(f"{('report', 'curves')[at] if at < 2 else '':14}{each}")
            if platform.own:
                up = typed("tutti up --detach", platform.data_dir or DEFAULT)
                say(f"the platform stops with this command; `{up}` starts one for others, such as those above")
    elif output == JSON:
        failed = next(answers(lambda: summary(client, done, warn=say), platform.ended))
        print_json({**failed, "report": None, "pictures": []})
    if done.state != STATE_DONE:
        raise Failure(f"{name} did not finish: {done.reason}")


def extend(group: click.Group) -> None:
    """Add the verbs of a run to the group `runs`."""
    labels.extend(group)

    @group.command(
        "cancel", help="Cancel a run. Later runs reuse finished stages; a training starts from the beginning."
    )
    @click.argument("name")
    @output_option
    @connection_options
    def cancel(name: str, output: str, **where: Any) -> None:
        with connected(**where) as client:
            full = resolved(client, "runs", name)
            print_cancelled(plain(client.pipeline.CancelRun(CancelRequest(name=full, request_id=fresh_id()))), output)

    @group.command("again", help="Run the recipe of a run again, over the same pages.")
    @click.argument("name", default=LATEST)
    @dry_run_option
    @detach_option
    @output_option
    @connection_options
    def again(name: str, dry_run: bool, detach: bool, output: str, data_dir: Path, address: str | None) -> None:
        if dry_run:
            with connected(data_dir, address) as client:
                show_plan(client, CheckRecipeRequest(again=resolved(client, "runs", name)), output)
            return
        with reached(data_dir, address) as platform:
            full = resolved(platform.client, "runs", name)
            carry_out(platform, CreateRunRequest(request_id=fresh_id(), again=full), output, detach=detach)

    @group.command("compare", short_help="Show the differences between runs.")
    @click.argument("names", nargs=-1, required=True, metavar="RUN...")
    @click.option("--all", "every", is_flag=True, help="Also show equal settings.")
    @output_option
    @connection_options
    def compare(names: Sequence[str], every: bool, output: str, **where: Any) -> None:
        """Show the figures of RUNs side by side, and the settings that differ; one RUN is compared with the newest.

        \b
        tutti runs compare words               # the newest run of this title with the newest run
        tutti runs compare 5d98 0f5c 77aa --all

        Runs that ended before version 0.3 have kept no figures of their data.
        """
        if len(names) > len(LETTERS):
            raise click.UsageError(f"{len(names)} runs were named, expected at most {len(LETTERS)}")
        with connected(**where) as client:
            full = [resolved(client, "runs", each) for each in (*names, *([LATEST] if len(names) == 1 else ()))]
            if len(set(full)) < len(full):
                among = f"{full[0]} is the newest run" if len(names) == 1 else f"two of {', '.join(names)} are the same"
                raise Failure(f"{among}: name different runs, such as two that `tutti runs ls` lists", MISUSE)
            runs = [client.pipeline.GetRun(GetRequest(name=name)) for name in full]
        compared = [*figures(runs), *(row for row in settings(runs) if every or row.differs)]
        letters = LETTERS[: len(runs)]
        rows: list[Plain] = [
            {"what": row.what, **dict(zip(letters, row.values, strict=True)), "differs": row.differs}
            for row in compared
        ]
        if output != JSON:
            rows = [each | {"": "*" if each["differs"] else ""} for each in rows]
        print_list(rows, ("", "what", *letters), output, nothing="")

    @group.command("follow", help="Watch a run until it ends; Ctrl-C stops watching, not the run.")
    @click.argument("name", default=LATEST)
    @output_option
    @connection_options
    def follow_run(name: str, output: str, **where: Any) -> None:
        with connected(**where) as client:
            full = resolved(client, "runs", name)
            say(f"looking on at {full}")
            place = None if where["address"] else where["data_dir"]
            finish(Platform(client, data_dir=place, resumed_by="`tutti up`"), full, output)
