"""The files of a dataset, fetched from the platform and read."""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from tutti.client import Client
from tutti.client.fetching import fetch
from tutti.contracts.tokenization.v1 import DatasetFile, ReadDatasetFileRequest
from tutti.corpus.documents import decisions, duplicates
from tutti.corpus.documents.cuts import Cuts
from tutti.corpus.documents.samples import Sample, held_out, samples


def read(client: Client, dataset: str, files: Sequence[DatasetFile], scratch: Path) -> Iterator[Sample]:
    """Yield the samples of a dataset; one shard of documents is in the scratch folder at a time. Raises Unusable."""

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
    """Files of a dataset with their digests; each is gone when the next one is asked for. Raises Unusable."""

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
