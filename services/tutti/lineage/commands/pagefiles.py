"""Files and folders on this machine as names: the document that a run made of a file, the work that read a folder.

Promises: a name that lineage knows is never taken for a file; of several runs that read a file the newest counts.
"""

import os
import unicodedata
from collections.abc import Callable
from itertools import islice
from typing import TypeVar

from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.client import Client
from tutti.client.resources import list_all
from tutti.report.documents import listed

T = TypeVar("T")
READINGS = "ingests/"
RUNS = 20
"""The number of newest runs over the folder of a file in which it is looked for."""


def asked(client: Client, page: str, ask: Callable[[str], T]) -> T:
    """Ask for a page by its name; if no page or several have it, by the document of the file at this path.

    Raises NotFound and InvalidField as `ask` does if there is no such file in a folder that a run read.
    """
    try:
        return ask(page)
    except (NotFound, InvalidField) as error:
        if isinstance(error, InvalidField) and error.field != "document":
            raise
        if not (name := document_of(client, page)):
            raise
        return ask(name)


def document_of(client: Client, path: str) -> str:
    """Return the name of the document that a run made of a file, or its source if it was rejected; "" if none read it.

    `path` is absolute, or starts in the current folder.
    """
    real = os.path.realpath(path)
    runs = list_all(client, "runs", fields=("name", "started_at", "input_path"))
    newest = sorted(runs, key=lambda run: run.started_at.ToNanoseconds(), reverse=True)
    read = ((run.name, source) for run in newest if (source := source_in(run.input_path, real)))
    for run, source in islice(read, RUNS):
        try:
            found = next((each for each in listed(client, run, "", source) if each.source == source), None)
        except (NotFound, Refused):  # its documents cannot be listed yet, or any more
            continue
        if found is not None:
            return found.document or found.source
    return ""


def reading_of(client: Client, path: str) -> str:
    """Return the work that read a folder of pages whole, for the newest run over it; "" if no run has it as its input.

    `path` is absolute, or starts in the current folder.
    """
    real = os.path.realpath(path)
    runs = list_all(client, "runs", fields=("name", "started_at", "input_path", "stages"))
    of_folder = [run for run in runs if run.input_path and os.path.realpath(run.input_path) == real]
    for run in sorted(of_folder, key=lambda run: run.started_at.ToNanoseconds(), reverse=True):
        for stage in run.stages:
            if stage.resource.startswith(READINGS):
                return str(stage.resource)
    return ""


def source_in(folder: str, real: str) -> str:
    """Return the source under which a run over a folder, or over one file, reads a file; "" for one outside of it."""
    if not folder:
        return ""
    root = os.path.realpath(folder)
    if real == root:
        source = os.path.basename(root)
    elif real.startswith(os.path.join(root, "")):
        source = os.path.relpath(real, root)
    else:
        return ""
    return unicodedata.normalize("NFC", source).replace(os.sep, "/")
