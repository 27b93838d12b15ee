"""The form for the labels of runs: of one its title, note and tags, of several tags to add and to remove. Pure.

Promises: texts of people are texts; a form is checked as the calls of programs are, for all of its runs before the
first one is changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.field_mask_pb2 import FieldMask

from tutti.chassis.errors import InvalidField
from tutti.chassis.names import check_name
from tutti.client.titles import MOST_TITLE
from tutti.contracts.pipeline.v1 import Run, UpdateRunRequest
from tutti.pipeline.pages.times import moment_of
from tutti.pipeline.pages.workbench import ROWS, is_archived, title_of
from tutti.pipeline.runs import labels
from tutti.web.pages import Redirect

MOST = ROWS
"""The number of runs that one form changes: as many as a page lists."""


@dataclass(frozen=True)
class LabelledRun:
    name: str
    title: str
    tags: Sequence[str]
    archived: bool


@dataclass(frozen=True)
class LabelsView:
    """`one`: only one run is changed, whose labels the fields have; `recipe_title` is its title without another.

    `names` are those of the runs, for the form; `archived` is how many of them are archived.
    """

    runs: Sequence[LabelledRun]
    names: str
    one: bool
    title: str
    recipe_title: str
    note: str
    tags: str
    revision: int
    archived: int
    most_title: int = MOST_TITLE
    most_note: int = labels.MOST_NOTE


@dataclass(frozen=True)
class ShownLabels:
    """The labels of a run on its page; `archived_at` is empty if it is not archived."""

    tags: Sequence[str]
    note: str
    archived_at: str


def shown(run: Run) -> ShownLabels:
    archived = moment_of(run.labels, "archived_at")
    return ShownLabels(list(run.labels.tags), run.labels.note, archived)


def names_of(given: Sequence[str]) -> list[str]:
    """The names of the runs of an address or a form, once each. Raises InvalidField."""
    names = [each if each.startswith("runs/") else f"runs/{each}" for each in dict.fromkeys(given)]
    if not 1 <= len(names) <= MOST:
        raise InvalidField("run", seen=f"{len(names)} runs", expected=f"1 to {MOST}: select some in the list")
    return [check_name("runs", each, field="run") for each in dict.fromkeys(names)]


def labels_view(runs: Sequence[Run]) -> LabelsView:
    first, one = runs[0], len(runs) == 1
    return LabelsView(
        runs=[LabelledRun(run.name, title_of(run), list(run.labels.tags), is_archived(run)) for run in runs],
        names=" ".join(run.name for run in runs),
        one=one,
        title=first.labels.title if one else "",
        recipe_title=first.spec.title,
        note=first.labels.note if one else "",
        tags=" ".join(first.labels.tags) if one else "",
        revision=first.labels.revision if one else 0,
        archived=sum(map(is_archived, runs)),
    )


def requests(form: Mapping[str, str]) -> list[UpdateRunRequest]:
    """Return the request of a form for each of its runs. Raises InvalidField."""
    names = sorted(names_of(form.get("runs", "").split()))  # so that two forms lock them in one order
    return [labels.checked(_request(name, form, one=len(names) == 1)) for name in names]


def back(form: Mapping[str, str]) -> Redirect:
    """Return the page after a form: that of its run, or the list."""
    names = names_of(form.get("runs", "").split())
    return Redirect(f"/{names[0]}" if len(names) == 1 else "/runs")


def _request(name: str, form: Mapping[str, str], *, one: bool) -> UpdateRunRequest:
    action = form.get("action", "")
    if action in ("archive", "unarchive"):
        return UpdateRunRequest(name=name, update_mask=FieldMask(paths=["archived"]), archived=action == "archive")
    if action == "tag" and not one:
        return UpdateRunRequest(
            name=name, add_tags=form.get("add", "").split(), remove_tags=form.get("remove", "").split()
        )
    if action != "save" or not one:
        raise InvalidField("action", seen=action, expected="archive, unarchive, tag for several runs, save for one")
    revision = form.get("revision", "")
    if not (revision.isascii() and revision.isdecimal()):
        raise InvalidField("revision", seen=revision, expected="a whole number, as the form had it")
    return UpdateRunRequest(
        name=name,
        update_mask=FieldMask(paths=["title", "note", "tags"]),
        title=form.get("title", ""),
        note=form.get("note", ""),
        tags=form.get("tags", "").split(),
        labels_revision=int(revision[:18]),
    )
