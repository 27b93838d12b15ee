"""The list of runs with their figures: searched, filtered, sorted, a page at a time. Pure.

Promises: the address of a page has everything that it shows; runs without a figure are last in either order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self
from urllib.parse import urlencode

from tutti.chassis.enums import word
from tutti.chassis.errors import InvalidField
from tutti.client import titles
from tutti.contracts.common.v1 import STATE_PENDING, STATE_RUNNING, State
from tutti.contracts.pipeline.v1 import Run, RunTraining
from tutti.pipeline.pages.times import moment_of
from tutti.pipeline.runs.labels import tags_of
from tutti.report.comparing import Change, changes, training_of
from tutti.report.durations import seconds

ROWS = 50
SHOWN_CHANGES = 4
SHOWN_NOTE = 100
MOST_WORDS = 200
STATES = ("running", "done", "failed", "cancelled")
ARCHIVED = ("also", "only")
"""The answers to which archived runs are listed; "" for none."""
Key = Callable[[Run], float | str | None]


@dataclass(frozen=True)
class Column:
    """A column by which runs are sorted; `first` is "-" if the largest is more interesting than the smallest."""

    title: str
    key: Key
    first: str = ""


def _of_training(field: str) -> Key:
    def value(run: Run) -> float | None:
        found: RunTraining = training_of(run)
        known = found.HasField(field) if field != "step" else bool(found.job)  # type: ignore[arg-type]
        return float(getattr(found, field)) if known else None

    return value


COLUMNS: Mapping[str, Column] = {
    "title": Column("Run", lambda run: title_of(run).casefold()),
    "state": Column("State", lambda run: state_of(run)),
    "bits_per_byte": Column("Bits per byte", _of_training("bits_per_byte")),
    "loss": Column("Loss", _of_training("loss")),
    "step": Column("Steps", _of_training("step"), "-"),
    "parameters": Column("Parameters", _of_training("parameters"), "-"),
    "started": Column("Started", lambda run: run.started_at.ToNanoseconds(), "-"),
}


@dataclass(frozen=True)
class Question:
    """The part of the list that a visitor asks for. `sort` is a column, after a "-" if the largest is first.

    `tags` are those that a run must have, with blanks between them; `archived` is one of ARCHIVED, or empty. `selected`
    are the names of the runs that the visitor has selected, on whichever page, without their kind.
    """

    words: str = ""
    state: str = ""
    sort: str = "-started"
    page: int = 1
    tags: str = ""
    archived: str = ""
    selected: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: Mapping[str, str], selected: Sequence[str] = ()) -> Self:
        """Raises InvalidField."""
        words, state, sort = query.get("q", "").strip(), query.get("state", ""), query.get("sort", cls.sort)
        if len(words) > MOST_WORDS:
            raise InvalidField("q", seen=f"{len(words)} characters", expected=f"at most {MOST_WORDS}")
        if state and state not in STATES:
            raise InvalidField("state", seen=state, expected=f"one of {', '.join(STATES)}")
        tags = " ".join(tags_of(query.get("tag", "").split(), "tag"))
        archived = query.get("archived", "")
        if archived and archived not in ARCHIVED:
            raise InvalidField("archived", seen=archived, expected=f"one of {', '.join(ARCHIVED)}")
        if sort.removeprefix("-") not in COLUMNS:
            raise InvalidField("sort", seen=sort, expected=f"one of {', '.join(COLUMNS)}, or one of them after a -")
        page = query.get("page", "1")
        if not (page.isascii() and page.isdecimal() and int(page[:9]) >= 1):
            raise InvalidField("page", seen=page, expected="a whole number from 1")
        names = tuple(dict.fromkeys(each.removeprefix("runs/") for each in selected))
        if len(names) > ROWS:
            raise InvalidField("run", seen=f"{len(names)} runs", expected=f"at most {ROWS}")
        return cls(words, state, sort, int(page[:9]), tags, archived, names)

    @property
    def href(self) -> str:
        """The address that asks for this."""
        page = {"page": self.page} if self.page > 1 else {}
        given = {**self.fields, **page, **({"run": self.selected} if self.selected else {})}
        return f"/runs?{urlencode(given, doseq=True)}" if given else "/runs"

    @property
    def fields(self) -> Mapping[str, str]:
        """The fields of the address that are not as in the first list, without its page and the selected runs."""
        given, unlike = self._fields, Question()._fields
        return {name: value for name, value in given.items() if value != unlike[name]}

    @property
    def _fields(self) -> Mapping[str, str]:
        found = {"q": self.words, "state": self.state, "tag": self.tags, "archived": self.archived}
        return {**found, "sort": self.sort}

    def matches(self, run: Run, before: Run | None = None) -> bool:
        """True if the run has this state and these tags, and each word is in its title, name, reason or note, or in a
        key that differs from the run before.
        """
        if self.state and state_of(run) != self.state:
            return False
        if not set(self.tags.split()) <= set(run.labels.tags):
            return False
        text = f"{run.labels.title} {run.spec.title} {run.name} {run.reason} {run.labels.note}".casefold()
        missing = [each for each in self.words.casefold().split() if each not in text]
        if not missing or before is None:
            return not missing
        keys = [change.key.casefold() for change in changes(run, before)]
        return all(any(each in key for key in keys) for each in missing)

    def lists(self, run: Run) -> bool:
        """True if a run that matches is listed, archived or not."""
        return self.archived == "also" or is_archived(run) == (self.archived == "only")


@dataclass(frozen=True)
class RunRow:
    """`stage` is the one that is under way; empty in a run that has ended. `note` is the beginning of the note.

    `changes` are the first keys of the recipe that differ from the run `before`, the one of this title before it;
    `more_changes` are not shown.
    """

    name: str
    title: str
    state: str
    stage: str
    done: int
    stages: int
    reason: str
    started_at: str
    seconds: float
    step: int | None
    steps: int | None
    loss: float | None
    bits_per_byte: float | None
    parameters: int | None
    before: str
    changes: Sequence[Change]
    more_changes: int
    tags: Sequence[str]
    note: str
    archived: bool
    selected: bool


@dataclass(frozen=True)
class Head:
    """A column, and the address that sorts by it, whose field `sort` this is; `order` is the present one as `aria-sort`
    names it, or empty.
    """

    name: str
    title: str
    sort: str
    href: str
    order: str


@dataclass(frozen=True)
class RunsView:
    """A page of runs: those `found` of the `total`, of which `runs` begin after `skipped` others.

    `more`: runs that were found and are not shown; `damaged`: the reason for each that is left out; `missing`: which
    services did not answer. `hidden`: archived runs that match and are not listed, which the address `unhide` lists.
    `chips`: the address that asks for a tag too, for each tag of the runs. `fields` are those of the address of this
    list, without its page; `selected` runs are named in it, of which those `elsewhere` are not among `runs`, and
    `unselect` is the address without them. `every` is the address of the first list, with them.
    """

    runs: Sequence[RunRow]
    more: int
    damaged: Sequence[str]
    total: int
    found: int
    skipped: int
    words: str
    state: str
    sort: str
    states: Sequence[str]
    heads: Sequence[Head]
    previous: str
    next: str
    missing: Sequence[str]
    tags: str
    archived: str
    hidden: int
    unhide: str
    chips: Mapping[str, str]
    fields: Mapping[str, str]
    page: int
    selected: Sequence[str]
    elsewhere: Sequence[str]
    unselect: str
    every: str


def runs_view(
    runs: Sequence[Run], now: datetime, asked: Question, damaged: Sequence[str] = (), missing: Sequence[str] = ()
) -> RunsView:
    """The page of runs that a visitor asks for; of pages behind the last one, the last."""
    before = _before(runs)
    matching = [run for run in runs if asked.matches(run, before.get(run.name))]
    found = ordered(filter(asked.lists, matching), asked.sort)
    pages = max(1, -(-len(found) // ROWS))
    asked = replace(asked, page=min(asked.page, pages))
    skipped = (asked.page - 1) * ROWS
    shown = found[skipped : skipped + ROWS]
    rows = [run_row(run, now, before.get(run.name), asked.selected) for run in shown]
    here = {row.name for row in rows if row.selected}
    return RunsView(
        runs=rows,
        more=len(found) - len(shown),
        damaged=damaged,
        total=len(runs),
        found=len(found),
        skipped=skipped,
        words=asked.words,
        state=asked.state,
        sort=asked.sort,
        states=STATES,
        heads=[_head(name, asked) for name in COLUMNS],
        previous=replace(asked, page=asked.page - 1).href if asked.page > 1 else "",
        next=replace(asked, page=asked.page + 1).href if asked.page < pages else "",
        missing=missing,
        tags=asked.tags,
        archived=asked.archived,
        hidden=len(matching) - len(found) if not asked.archived else 0,
        unhide=replace(asked, archived="also", page=1).href,
        chips={tag: _chip(tag, asked) for tag in sorted({tag for run in shown for tag in run.labels.tags})},
        fields=asked.fields,
        page=asked.page,
        selected=asked.selected,
        elsewhere=[name for name in asked.selected if f"runs/{name}" not in here],
        unselect=replace(asked, selected=()).href,
        every=Question(selected=asked.selected).href,
    )


def ordered(runs: Iterable[Run], sort: str) -> list[Run]:
    """Runs in an order of the list; of equal ones the newest is first."""
    key = COLUMNS[sort.removeprefix("-")].key
    newest = sorted(runs, key=lambda run: (run.started_at.ToNanoseconds(), run.name), reverse=True)
    keyed = [(key(run), run) for run in newest]
    known = [(value, run) for value, run in keyed if value is not None and value == value]
    known.sort(key=lambda each: each[0], reverse=sort.startswith("-"))
    return [run for _, run in known] + [run for value, run in keyed if value is None or value != value]


def run_row(run: Run, now: datetime, before: Run | None = None, selected: Sequence[str] = ()) -> RunRow:
    """A run, the changes since the run before it, and whether it is among the names of those `selected`."""
    training, changed = training_of(run), changes(run, before) if before is not None else []
    known = bool(training.job)
    return RunRow(
        name=run.name,
        title=title_of(run),
        state=state_of(run),
        stage=next((stage.name for stage in run.stages if stage.state == STATE_RUNNING), ""),
        done=sum(stage.state not in (STATE_PENDING, STATE_RUNNING) for stage in run.stages),
        stages=len(run.stages),
        reason=run.reason,
        started_at=moment_of(run, "started_at"),
        seconds=seconds(run, now.timestamp()),
        step=training.step if known else None,
        steps=training.steps if known else None,
        loss=training.loss if training.HasField("loss") else None,
        bits_per_byte=training.bits_per_byte if training.HasField("bits_per_byte") else None,
        parameters=training.parameters if training.HasField("parameters") else None,
        before=before.name if before is not None else "",
        changes=changed[:SHOWN_CHANGES],
        more_changes=max(0, len(changed) - SHOWN_CHANGES),
        tags=list(run.labels.tags),
        note=_beginning(run.labels.note),
        archived=is_archived(run),
        selected=run.name.removeprefix("runs/") in selected,
    )


def title_of(run: Run) -> str:
    """The title of a run, or its name."""
    return titles.title_of(run) or run.name


def is_archived(run: Run) -> bool:
    return run.labels.HasField("archived_at")


def state_of(run: Run) -> str:
    """The state of a run in a word."""
    return word(State.DESCRIPTOR, State.Name(run.state))


def _head(name: str, asked: Question) -> Head:
    column = COLUMNS[name]
    here = asked.sort.removeprefix("-") == name
    order = ("descending" if asked.sort.startswith("-") else "ascending") if here else ""
    sort = f"{('' if asked.sort.startswith('-') else '-') if here else column.first}{name}"
    return Head(name, column.title, sort, replace(asked, sort=sort, page=1).href, order)


def _chip(tag: str, asked: Question) -> str:
    """The address that asks for runs with this tag, too."""
    return replace(asked, tags=" ".join(sorted({*asked.tags.split(), tag})), page=1).href


def _beginning(note: str) -> str:
    """The first line of a note, cut."""
    line = note.partition("\n")[0]
    return line if line == note and len(line) <= SHOWN_NOTE else f"{line[:SHOWN_NOTE].rstrip()}…"


def _before(runs: Iterable[Run]) -> dict[str, Run]:
    """The run before each one whose recipe has the same title, by name."""
    newest, found = dict[str, Run](), dict[str, Run]()
    for run in sorted(runs, key=lambda run: (run.started_at.ToNanoseconds(), run.name)):
        if (before := newest.get(run.spec.title)) is not None:
            found[run.name] = before
        newest[run.spec.title] = run
    return found
