"""Labels of a run: its title, note and tags, and whether it is archived. Pure.

Promises: they change neither the recipe, the digests, the stages nor the results of a run; an archived run is complete,
can be found by its name, and can be unarchived; a run that still uses machines cannot be archived, so no list hides
work under way.
"""

import re
from collections.abc import Iterable
from datetime import datetime

from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.store.columns import WORD, WORD_RULE
from tutti.client.titles import MOST_TITLE
from tutti.contracts.pipeline.v1 import Run, RunLabels, UpdateRunRequest
from tutti.pipeline.runs.transitions import ENDED
from tutti.report.values import printable

FIELDS = ("title", "note", "tags", "archived")
MOST_NOTE, MOST_TAGS, MOST_TAG = 4000, 16, 40
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
NOT_ENDED, CHANGED = "RUN_NOT_ENDED", "LABELS_CHANGED"
declare(
    {
        NOT_ENDED: "the run has not ended, so it cannot be archived: cancel it, or wait for its end",
        CHANGED: "the labels of the run have changed since the caller read them; read them again",
    }
)


def checked(request: UpdateRunRequest) -> UpdateRunRequest:
    """Return a request with normal texts: lines end with LF, tags are distinct and sorted. Raises InvalidField."""
    mask = sorted(request.update_mask.paths)
    known = ", ".join(FIELDS)
    if not set(mask) <= set(FIELDS):
        raise InvalidField("update_mask", seen=", ".join(mask), expected=f"fields of {known}")
    more = [name for name in ("add_tags", "remove_tags") if getattr(request, name)]
    if not mask and not more:
        raise InvalidField("update_mask", seen="no field", expected=f"one of {known}; or add_tags, or remove_tags")
    if "tags" in mask and more:
        raise InvalidField(more[0], seen="both", expected=f"either tags in the update_mask or {more[0]}")
    found = UpdateRunRequest()
    found.CopyFrom(request)
    found.title, found.note = _title(request.title), _note(request.note)
    for name in ("tags", "add_tags", "remove_tags"):
        tags = tags_of(getattr(request, name), name)
        del getattr(found, name)[:]
        getattr(found, name).extend(tags)
    if both := sorted(set(found.add_tags) & set(found.remove_tags)):
        raise InvalidField("remove_tags", seen=both[0], expected="no tag that add_tags has")
    return found


def labelled(run: Run, request: UpdateRunRequest, now: datetime) -> Run:
    """Return a run with the labels that a checked request asks for; the same one where it has them.

    Raises Refused for a run that cannot be archived, and for labels that are others than the caller read; InvalidField
    for too many tags.
    """
    labels, mask = RunLabels(), set(request.update_mask.paths)
    labels.CopyFrom(run.labels)
    if "title" in mask:
        labels.title = "" if request.title == run.spec.title else request.title
    if "note" in mask:
        labels.note = request.note
    before = request.tags if "tags" in mask else run.labels.tags
    tags = sorted({*before, *request.add_tags} - set(request.remove_tags))
    _check_number(tags, "add_tags" if request.add_tags else "tags")
    del labels.tags[:]
    labels.tags.extend(tags)
    if "archived" in mask and request.archived != run.labels.HasField("archived_at"):
        if request.archived:
            labels.archived_at.FromDatetime(now)
        else:
            labels.ClearField("archived_at")
    if labels == run.labels:
        return run
    if request.HasField("labels_revision") and request.labels_revision != run.labels.revision:
        seen = f"they are at revision {run.labels.revision}, expected {request.labels_revision}"
        raise Refused(CHANGED, f"the labels of {run.name} have changed: {seen}; read them and try again")
    if labels.HasField("archived_at") and run.state not in ENDED:
        raise Refused(
            NOT_ENDED, f"{run.name} has not ended, so a list must show it: cancel it, or archive it after its end"
        )
    labels.revision = run.labels.revision + 1
    after = Run()
    after.CopyFrom(run)
    after.labels.CopyFrom(labels)
    return after


def tags_of(tags: Iterable[str], field: str = "tags") -> list[str]:
    """Return tags, distinct and sorted. Raises InvalidField."""
    found = sorted(set(tags))
    for each in found:
        if len(each) > MOST_TAG or not WORD.fullmatch(each):
            raise InvalidField(field, seen=printable(each), expected=f"at most {MOST_TAG} characters of {WORD_RULE}")
    _check_number(found, field)
    return found


def _check_number(tags: list[str], field: str) -> None:
    if len(tags) > MOST_TAGS:
        raise InvalidField(field, seen=f"{len(tags)} tags", expected=f"at most {MOST_TAGS} for a run")


def _title(title: str) -> str:
    title = title.strip()
    if len(title) > MOST_TITLE:
        raise InvalidField("title", seen=f"{len(title)} characters", expected=f"at most {MOST_TITLE}")
    if printable(title) != title:
        expected = "one line without control characters and marks of the direction of text"
        raise InvalidField("title", seen=printable(title), expected=expected)
    return title


def _note(note: str) -> str:
    note = note.replace("\r\n", "\n").strip()
    if len(note) > MOST_NOTE:
        raise InvalidField("note", seen=f"{len(note):,} characters", expected=f"at most {MOST_NOTE:,}")
    if found := _CONTROLS.search(note):
        expected = "plain text, whose only control characters are line feeds and tabs"
        raise InvalidField("note", seen=printable(found[0]), expected=expected)
    return note
