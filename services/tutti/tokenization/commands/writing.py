"""A dataset written in a format of others, with a progress bar on a terminal."""

import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tutti.cli.failures import Failure
from tutti.client import Client
from tutti.client.plain import Plain
from tutti.contracts.tokenization.v1 import ListDatasetFilesResponse
from tutti.corpus.documents.sampleformats import write
from tutti.records.errors import CorpusError
from tutti.report.datasetfiles import read


def written(
    client: Client, dataset: str, listed: ListDatasetFilesResponse, folder: Path, wanted: str, file_bytes: int
) -> Plain:
    """Write all splits into an empty folder, and return the facts of each by its name. Raises Failure."""
    with (
        tempfile.TemporaryDirectory(prefix=".export-", dir=folder.parent) as scratch,
        bar(listed.documents + listed.validation_documents) as progress,
    ):
        (task,) = progress.task_ids
        try:
            found = write(
                read(client, dataset, listed.files, Path(scratch)),
                folder,
                format=wanted,
                dataset=dataset,
                file_bytes=file_bytes,
                told=lambda count: progress.update(task, completed=count),
            )
        except CorpusError as error:
            raise Failure(f"{dataset} cannot be read: {error}") from error
        counts = {name: split["samples"] for name, split in found.items()}
        expected = {"train": listed.documents, "validation": listed.validation_documents}
        if counts != expected:
            raise Failure(f"{dataset} has {expected} documents, and {counts} were read; nothing was written")
        return found


def bar(total: int) -> Progress:
    """A progress bar, on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("documents"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    progress.add_task("documents", total=total)
    return progress
