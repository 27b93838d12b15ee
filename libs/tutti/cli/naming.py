"""Names of resources as a person writes them, resolved to the resource that is meant.

Promises: `latest`, a prefix that one resource has, the title of a run, and a run or a job where something that it made
is expected, are resolved here and nowhere else; an unknown name is "not found" and answered with the nearest names.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.rpc import kinds
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.nouns import BY_PLURAL
from tutti.cli.output import say, say_damaged
from tutti.client import Client
from tutti.client.resources import full_name, get_one, list_all
from tutti.client.titles import title_of
from tutti.report.results import LIVE, dataset_of, newest_checkpoint, newest_of_job

LATEST = "latest"
SHOWN = 3
"""Names that an error lists."""
TIMES = ("started_at", "decided_at", "retracted_at", "created_at")
"""Fields that say when a resource began."""
_PAIR = re.compile(r"\s+AND\s+")


@dataclass(frozen=True)
class Candidate:
    """A resource that a text may mean; `order` sorts the newest last, `title` is that of a run."""

    name: str
    order: tuple[int, ...] = ()
    title: str = ""


def resolved(client: Client, plural: str, text: str = LATEST) -> str:
    """Return the full name of the resource of a kind that a text means; "" and `latest` mean the newest.

    Raises Failure where it means none or several, Problem.
    """
    head, slash, _ = text.partition("/")
    if slash and head != plural and head in ("runs", "jobs"):
        return _made_by(client, plural, resolved(client, head, text))
    if _is_word(plural, text) and (exact := _exact(client, plural, text)):
        return exact
    try:
        return choose(plural, text, _candidates(client, plural))
    except Failure:
        runs = [each for each in _candidates(client, "runs") if text in (each.title, each.name.removeprefix("runs/"))]
        if plural == "runs" or not runs:
            raise
        return _made_by(client, plural, max(runs, key=lambda each: each.order).name)


def chosen(client: Client, plural: str, text: str = LATEST) -> str:
    """Return the full name that a text means, and say which where the text is not the name. Raises Failure, Problem."""
    name = resolved(client, plural, text)
    if name != full_name(plural, text):
        say(f"takes {name}")
    return name


def choose(plural: str, text: str, candidates: Sequence[Candidate]) -> str:
    """Return the name of the candidate that a text means. Raises Failure."""
    newest = sorted(candidates, key=lambda each: (each.order, each.name))
    if _latest(text):
        if not newest:
            raise Failure(f"there are no {plural}" if not (noun := BY_PLURAL.get(plural)) else noun.empty)
        return newest[-1].name
    full = full_name(plural, text)
    if any(each.name == full for each in newest):
        return full
    if titled := [each for each in newest if each.title == text.removeprefix(f"{plural}/")]:
        return titled[-1].name
    begin = [each for each in newest if each.name.startswith(full)]
    if len({_line(plural, each.name) for each in begin}) == 1:
        return begin[-1].name
    if begin:
        names = ", ".join(each.name for each in begin[-SHOWN:])
        more = f" and {len(begin) - SHOWN} more" if len(begin) > SHOWN else ""
        raise Failure(f"{full} is ambiguous: {names}{more}; give more of the name", MISUSE)
    raise Failure(f"{full} does not exist [NOT_FOUND]{_hint(plural, text, newest)}")


def resolved_filter(client: Client, filter_text: str) -> str:
    """Return a filter whose values that name resources, as in `job=ID`, are full names. Raises Failure, Problem."""
    singular = {kind.singular.lower(): kind.plural for kind in kinds.every_kind() if kind.about}
    pairs = []
    for pair in _PAIR.split(filter_text.strip()):
        field, equals, value = (part.strip() for part in pair.partition("="))
        if equals and value and field in singular:
            pair = f"{field}={resolved(client, singular[field], value.strip(chr(34)))}"
        pairs.append(pair)
    return " AND ".join(pairs)


def _latest(text: str) -> bool:
    return text.rpartition("/")[2] in ("", LATEST) and text.count("/") <= 1


def _is_word(plural: str, text: str) -> bool:
    """Return whether a text may be a whole name, for which no list is needed."""
    return not _latest(text) and (plural != "checkpoints" or full_name(plural, text).count("/") == 3)


def _line(plural: str, name: str) -> str:
    """Return what names share whose newest is meant by their prefix: of checkpoints the job."""
    return name.split("/")[1] if plural == "checkpoints" else name


def _exact(client: Client, plural: str, text: str) -> str:
    try:
        return str(get_one(client, plural, text).name)
    except (NotFound, InvalidField):
        return ""


def _candidates(client: Client, plural: str) -> list[Candidate]:
    """Return every resource of a kind that may be meant: no checkpoint that is damaged or removed."""
    fields = kinds.named(plural).message.DESCRIPTOR.fields_by_name
    wanted = ["name", *(each for each in (*TIMES, "state", "step") if each in fields)]
    if plural == "runs":
        wanted += ["spec.title", "labels.title"]
    found = []
    for each in list_all(client, plural, fields=wanted, damaged=say_damaged):
        if plural == "checkpoints" and each.state not in LIVE:
            continue
        times = [getattr(each, field).ToNanoseconds() for field in TIMES if field in wanted]
        step = [each.step] if "step" in wanted else []
        title = title_of(each) if plural == "runs" else ""
        found.append(Candidate(each.name, (*times, *step), title))
    if not any(each in wanted for each in TIMES):
        return _by_run(client, found)
    return found


def _by_run(client: Client, candidates: list[Candidate]) -> list[Candidate]:
    """Return candidates that carry no time in the order of the newest run that made or read each."""
    order: dict[str, int] = {}
    for run in list_all(client, "runs", damaged=say_damaged):
        began = run.started_at.ToNanoseconds()
        made = {dataset_of(run), *(stage.resource for stage in run.stages)}
        order |= {name: max(began, order.get(name, 0)) for name in made if name}
    return [Candidate(each.name, (order.get(each.name, 0),)) for each in candidates]


def _made_by(client: Client, plural: str, maker: str) -> str:
    """Return the newest resource of a kind that a run or a job made. Raises Failure, Problem."""
    if maker.startswith("runs/"):
        run = get_one(client, "runs", maker)
        made = [stage.resource for stage in run.stages if stage.resource.startswith(f"{plural}/")]
        if plural == "checkpoints":
            made = [found] if (found := newest_checkpoint(client, run)) else []
        elif plural in ("datasets", "tokenizers") and (name := dataset_of(run)):
            made = [name if plural == "datasets" else get_one(client, "datasets", name).tokenizer]
    elif plural == "checkpoints":
        made = [found] if (found := newest_of_job(client, maker)) else []
    else:
        raise Failure(f"{maker}: expected one of the {plural}, or a run; `tutti {plural} ls` lists them", MISUSE)
    if not made:
        raise Failure(f"{maker} has made none of the {plural}; `tutti {maker.partition('/')[0]} show {maker}` says why")
    return str(made[-1])


def _hint(plural: str, text: str, newest: Sequence[Candidate]) -> str:
    """Return the names that are near one, or how to list all."""
    short = text.removeprefix(f"{plural}/")
    words = {each.name.removeprefix(f"{plural}/"): each for each in newest} | {
        each.title: each for each in newest if each.title
    }
    near = [words[word] for word in difflib.get_close_matches(short, list(words), n=SHOWN)]
    if near:
        names = dict.fromkeys(f"{each.name}{f' ({each.title})' if each.title else ''}" for each in near)
        return f"; the nearest {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
    return f"; `tutti {plural} ls` lists those that do" if plural in BY_PLURAL else ""
