"""`tutti sweep`: a recipe with several values of some keys, as runs side by side, the best on top."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tutti.cli import INTERRUPTED, recipefiles
from tutti.cli.access import consulted, upheld
from tutti.cli.connection import connection_options
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.identity import fresh_id
from tutti.cli.output import JSON, output_option, print_json, print_list, say
from tutti.cli.overrides import Overridable
from tutti.cli.platform import Platform
from tutti.cli.runs import created, detach_option, dry_run_option, naming, read_recipe
from tutti.cli.waiting import ENDED, answers
from tutti.client import READING_SECONDS, Client
from tutti.client.plain import Plain, plain
from tutti.client.titles import MOST_TITLE
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest, Run, UpdateRunRequest
from tutti.report.comparing import LETTERS, training_of
from tutti.report.hints import typed
from tutti.report.stages import trains
from tutti.report.values import printable

MOST = 64
"""The number of runs that one command may make."""
LOOK_SECONDS = 1.0
FIGURES = ("bits_per_byte", "loss")
OPENING, CLOSING = "[{(", "]})"


@dataclass(frozen=True)
class Choice:
    """The values of the swept keys in one run, as they were typed."""

    values: Mapping[str, str]
    overrides: Sequence[str]

    @property
    def words(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


def choices(overrides: Sequence[str]) -> list[Choice]:
    """Every combination of the values of KEY=VALUE[,VALUE…], in the order in which they were typed.

    A comma within brackets or quotes belongs to a value. Raises Failure for no key with several values, for a value
    that is empty or given twice, and for more than MOST runs.
    """
    keys = dict[str, list[str]]()
    for each in overrides:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise Failure(f"--set {each}: expected KEY=VALUE or KEY=VALUE,VALUE, such as train.steps=100,200", MISUSE)
        keys[key] = list(_parts(value))
        if len(keys[key]) > 1 and ("" in keys[key] or len(set(keys[key])) < len(keys[key])):
            raise Failure(f"--set {each}: a value is empty or given twice; expected different ones", MISUSE)
    swept = [key for key, values in keys.items() if len(values) > 1]
    if not swept:
        raise Failure("give a key with several values, such as --set train.learning_rate=1e-3,3e-3", MISUSE)
    found = [dict(zip(keys, values, strict=True)) for values in itertools.product(*keys.values())]
    if len(found) > MOST:
        raise Failure(f"these values make {len(found)} runs; expected at most {MOST}: give fewer values", MISUSE)
    return [
        Choice({key: each[key] for key in swept}, [f"{key}={value}" for key, value in each.items()]) for each in found
    ]


def _parts(value: str) -> Iterator[str]:
    """The parts of a text between commas that are outside of brackets and quotes."""
    depth, quote, begin = 0, "", 0
    for at, letter in enumerate(value):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "," and depth == 0:
            yield value[begin:at]
            begin = at + 1
        else:
            depth += (letter in OPENING) - (letter in CLOSING)
    yield value[begin:]


@click.command("sweep", cls=Overridable, short_help="Run a recipe with several values of some keys, the best on top.")
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option(
    "--set", "overrides", multiple=True, required=True, metavar="KEY=V1,V2",
    help="A key with several values, or one for all runs; repeatable: every combination is a run.",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(FIGURES), default=FIGURES[0], show_default=True, help="The figure, lowest first."
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Give each run this tag; repeatable.")
@dry_run_option
@detach_option
@output_option
@connection_options
def sweep(
    recipe: Path,
    overrides: Sequence[str],
    by: str,
    tags: Sequence[str],
    dry_run: bool,
    detach: bool,
    output: str,
    data_dir: Path,
    address: str | None,
) -> None:
    """Run RECIPE once for each combination of values, and list the runs by their bits per byte on held-out text.

    \b
    tutti sweep recipes/tiny.yaml --set train.learning_rate=1e-3,3e-3,1e-2
    tutti sweep mine.yaml --set size=tiny,mini --set train.steps=100,200 --dry-run
    tutti sweep mine.yaml --set size=tiny,mini --tag sizes; tutti runs ls --tag sizes

    All values are checked before the first run begins; a wrong one makes no run. The other runs begin when the first
    one trains, and reuse its stages that are equal, such as the preparation of the texts; with --detach all begin at
    once. Trainings that find no free slot wait for the others. After Ctrl-C, the same command continues. The title of
    each run ends with its values, unless you gave it another one. At the end, the command names the one that compares
    the runs.
    """
    text, directory = read_recipe(recipe), str(recipe.resolve().parent)
    wanted = choices(overrides)
    # It brings pydantic, for which few other commands wait.
    from tutti.cli import recipeclassifiers

    with consulted(data_dir, address) if dry_run else upheld(data_dir, address, detach=detach) as platform:
        with naming(str(recipe)):
            for each in wanted:
                request = CheckRecipeRequest(recipe=text, overrides=each.overrides, directory=directory)
                recipefiles.send(platform.client, request)
                recipeclassifiers.resolve(platform, request, anew=False)
                platform.client.pipeline.CheckRecipe(request, timeout=READING_SECONDS)
        if dry_run:
            print_list([dict(each.values) for each in wanted], tuple(wanted[0].values), output, nothing="")
            return
        names = list[str]()
        try:
            for each in wanted:
                create = CreateRunRequest(
                    request_id=fresh_id(), recipe=text, overrides=each.overrides, directory=directory
                )
                recipefiles.send(platform.client, create)
                recipeclassifiers.resolve(platform, create, anew=True)
                run = created(platform, create)
                names.append(run.name)
                _label(platform.client, run, each, tags)
                say(f"{run.name}  {each.words}")
                if len(names) == 1 and not detach:
                    _until(platform, names, wanted, _trains)
            if detach:
                say("they continue: `tutti runs ls`; the same command without --detach lists them by their figures")
            runs = _until(platform, names, wanted, lambda run: detach or run.state in ENDED)
        except KeyboardInterrupt as error:
            raise Failure("interrupted; the same command continues these runs", INTERRUPTED) from error
    rows = _ranked([_row(run, each) for run, each in zip(runs, wanted, strict=True)], by)
    if output == JSON:
        print_json({"best": _best(rows, by), "by": by, "runs": rows})
    else:
        told = [{**each, **each["set"], "loss": _number(each["loss"]), by: _number(each[by])} for each in rows]
        columns = ("run", "state", *wanted[0].values, *(["loss"] if by != "loss" else []), by, "step")
        print_list(told, columns, output, nothing="")
        _say_next(rows, data_dir, address, own=platform.own)
    failed = [each for each in rows if not detach and each["state"] != "done"]
    if failed:
        words = "; ".join(f"{each['run']} is {each['state']}: {each['reason']}" for each in failed)
        raise Failure(f"{len(failed)} of {len(rows)} runs did not finish: {words}")


def _say_next(rows: Sequence[Plain], data_dir: Path, address: str | None, *, own: bool) -> None:
    """Name the command that compares the runs, and what it needs if the platform stops with this command."""
    command = comparing([str(each["run"]) for each in rows])
    compare = f"{command} --address {address}" if address else typed(command, data_dir)
    up = f", after `{typed('tutti up --detach', data_dir)}`, since the platform stops with this command" if own else ""
    say(f"`{compare}` compares {'them' if len(rows) <= len(LETTERS) else f'the first {len(LETTERS)}'}{up}")


def _until(
    platform: Platform, names: Sequence[str], wanted: Sequence[Choice], holds: Callable[[Run], bool]
) -> list[Run]:
    """Return the runs when it holds of all of them.

    Says when one begins to train, every tenth of its steps, and when it ends.
    """
    words = dict(zip(names, wanted, strict=False))
    told = dict[str, str]()

    def look() -> list[Run]:
        return [platform.client.pipeline.GetRun(GetRequest(name=name)) for name in names]

    for runs in answers(look, platform.ended, LOOK_SECONDS):
        for run in runs:
            if (news := _far(run)) and told.get(run.name) != news:
                told[run.name] = news
                say(f"{words[run.name].words}  {news}")
        if all(map(holds, runs)):
            return runs
    raise AssertionError("unreachable: answers end when the caller stops")


def _label(client: Client, run: Run, choice: Choice, tags: Sequence[str]) -> None:
    """Give a run its tags, and a title with its values, unless it has a title that a user gave it."""
    update = UpdateRunRequest(request_id=fresh_id(), name=run.name, add_tags=tags)
    if not run.labels.title:
        update.update_mask.paths.append("title")
        update.title = titled(run.spec.title, choice)
    if tags or update.title:
        client.pipeline.UpdateRun(update)


def titled(title: str, choice: Choice) -> str:
    """Return the title of a run of a sweep: that of the recipe, and its values, as far as a title may be long."""
    found = printable(f"{title}: {choice.words}" if title else choice.words)
    return found if len(found) <= MOST_TITLE else f"{found[: MOST_TITLE - 1]}…"


def comparing(names: Sequence[str]) -> str:
    """Return the command that compares the first of these runs, as many of them as it can."""
    return f"tutti runs compare {' '.join(each.removeprefix('runs/') for each in names[: len(LETTERS)])}"


def _trains(run: Run) -> bool:
    """True if a run has come to its training, or has ended."""
    return run.state in ENDED or any(map(trains, run.stages))


def _far(run: Run) -> str:
    """The progress of a run in words, which change every tenth of its training."""
    if run.state in ENDED:
        return str(plain(run)["state"])
    if not run.HasField("training") or not run.training.step:
        return ""
    tenth = 10 * run.training.step // max(run.training.steps, 1)
    return f"{tenth * 10} % of {run.training.steps:,} steps"


def _row(run: Run, choice: Choice) -> Plain:
    """A run with its newest figures; None for those that it has not."""
    training = plain(training_of(run))
    found = {"run": run.name, "state": plain(run)["state"], "reason": run.reason, "set": dict(choice.values)}
    return {**found, **{each: training[each] for each in ("step", "job", *FIGURES)}}


def _ranked(rows: Sequence[Plain], by: str) -> list[Plain]:
    """The runs with the lowest figure first; those that did not finish are last."""
    return sorted(rows, key=lambda each: (each["state"] != "done", each[by] is None, each[by] or 0.0))


def _best(rows: Sequence[Plain], by: str) -> str | None:
    """The name of the run on top, if it has ended and has the figure."""
    return str(rows[0]["run"]) if rows and rows[0]["state"] == "done" and rows[0][by] is not None else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
