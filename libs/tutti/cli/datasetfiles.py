"""The files of a dataset: fetched from the platform, and written in a format of others."""

import functools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tutti.cli.failures import Failure
from tutti.cli.fetching import fetch
from tutti.cli.plain import Plain
from tutti.client import Client
from tutti.contracts.tokenization.v1 import DatasetFile, ListDatasetFilesResponse, ReadDatasetFileRequest
from tutti.corpus.documents import decisions, duplicates
from tutti.corpus.documents.cuts import Cuts
from tutti.corpus.documents.sampleformats import write
from tutti.corpus.documents.samples import Sample, held_out, samples
from tutti.records.errors import CorpusError


def written(
    client: Client, dataset: str, listed: ListDatasetFilesResponse, folder: Path, wanted: str, file_bytes: int
) -> Plain:
    """Write all of it into an empty folder; what there is of each split. Raises Failure."""
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


def read(client: Client, dataset: str, files: Sequence[DatasetFile], scratch: Path) -> Iterator[Sample]:
    """The samples of a dataset; of its documents one shard lies in the scratch folder at a time. Raises Failure."""

    def holding(wanted: str) -> Iterator[tuple[Path, str]]:
        return fetched(client, dataset, [each for each in files if each.holds == wanted], scratch)

    dropped: set[str] = set()
    for holds, decode in (("decisions", decisions.decode), ("duplicates", duplicates.decode)):
        for path, _ in holding(holds):
            dropped.update(decode(path.read_bytes())["doc_id"].to_pylist())
    opened = [Cuts(path, scratch) for path, _ in holding("cuts")]
    validation = held_out(path for path, _ in holding("validation"))
    yield from samples(holding("documents"), dropped, validation, opened[0] if opened else None)


def fetched(client: Client, dataset: str, files: Sequence[DatasetFile], scratch: Path) -> Iterator[tuple[Path, str]]:
    """Files of a dataset with their digests; each is gone when the next one is asked for. Raises Failure."""

    def of_file(key: str, at: int) -> bytes:
        return client.tokenization.ReadDatasetFile(ReadDatasetFileRequest(name=dataset, file=key, offset=at)).data

    for number, each in enumerate(files):
        path = scratch / f"{each.holds}-{number}"
        fetch(
            functools.partial(of_file, each.key),
            path,
            size=each.bytes,
            digest=each.bytes_digest,
            name=each.key,
            otherwise="run the recipe again that made it",
        )
        yield path, each.bytes_digest
        path.unlink()
