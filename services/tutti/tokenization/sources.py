"""The files that a dataset was made of: its documents, what was left out of them, the token shards held out, and what
was measured of the documents.

Promises: what is not part of the dataset cannot be read here; a dataset never changes, so its files are looked up once.
A dataset is read back without its measures, too.
"""

import contextlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import NotFound, Refused, declare
from tutti.chassis.names import check_name
from tutti.chassis.service import Host
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work.work import Work
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.tokenization.v1 import (
    Dataset,
    DatasetFile,
    ListDatasetFilesResponse,
    Tokenization,
    TokenizationSpec,
    Tokenizer,
)
from tutti.corpus.documents.stages import DedupBody, IngestBody
from tutti.corpus.tokens.dataset import DatasetBody
from tutti.records.manifest import Kind
from tutti.staging import fetching

declare({"SOURCES_GONE": "a dataset or tokenizer cannot be read back: blobs of it are missing or damaged"})


class Sources:
    def __init__(self, host: Host, work: Work[Tokenization], datasets: Resource[Dataset]) -> None:
        self._host, self._work, self._datasets = host, work, datasets
        self._listed = lru_cache(maxsize=8)(self._list)

    def files(self, name: str) -> ListDatasetFilesResponse:
        """Raises NotFound, Refused."""
        name = check_name("datasets", name)
        self._host.units.run(lambda unit: self._datasets.get(unit, name))
        try:
            return self._listed(name)
        except WorkFailed as error:
            raise Refused("SOURCES_GONE", f"{name}: {error}") from error

    def read(self, name: str, key: str, offset: int) -> bytes:
        """A piece of a file from an offset on; nothing at its end. Raises NotFound, InvalidField, Refused."""
        found = next((each for each in self.files(name).files if each.key == key), None)
        if found is None:
            raise NotFound(f"{name}/{key}")
        gone = Refused("SOURCES_GONE", f"{name}: the blob {key} is gone; run its recipe again")
        return fetching.piece(self._host.blobs, key, found.bytes, offset, gone=gone)

    def read_tokenizer(self, tokenizer: Tokenizer, offset: int) -> bytes:
        """A piece of its artefact from an offset on; nothing at its end. Raises InvalidField, Refused."""
        blobs, key = self._host.blobs, tokenizer.key
        gone = Refused("SOURCES_GONE", f"{tokenizer.name}: the blob {key} is gone; run the recipe again")
        try:
            return fetching.piece(blobs, key, size(blobs, key), offset, gone=gone)
        except WorkFailed as error:
            raise gone from error

    def _list(self, name: str) -> ListDatasetFilesResponse:
        blobs, (dataset, specs) = self._host.blobs, self._host.units.run(lambda unit: self._made(unit, name))
        body = DatasetBody.read(fetching.manifest(blobs, dataset.manifest_key, dataset.content_digest, Kind.DATASET))
        return ListDatasetFilesResponse(
            files=[*first_listed(blobs, body, specs), *first_measured(blobs, specs)],
            documents=body.train.documents,
            validation_documents=body.validation.documents,
            text_bytes=body.train.text_bytes + body.validation.text_bytes,
        )

    def _made(self, unit: Unit, name: str) -> tuple[Dataset, list[TokenizationSpec]]:
        """A dataset, and what the tokenizations that made it were given: the same texts, of several dedups maybe."""
        done = self._work.resource.select(unit, state=int(STATE_DONE))
        if not (specs := [each.spec for each in done if each.dataset == name]):
            raise Refused("SOURCES_GONE", f"{name}: the tokenization that made it is not known any more")
        return self._datasets.get(unit, name), specs


def first_listed(blobs: Blobs, body: DatasetBody, specs: Iterable[TokenizationSpec]) -> list[DatasetFile]:
    """The files by the first of these that has all of its blobs. Raises WorkFailed, of the first, where none has."""
    problems = list[WorkFailed]()
    for spec in specs:
        try:
            kept = DedupBody.read(fetching.manifest(blobs, spec.manifest_key, spec.content_digest, Kind.DEDUP))
            return list(listed(blobs, body, kept))
        except WorkFailed as problem:
            problems.append(problem)
    raise problems[0]


def listed(blobs: Blobs, body: DatasetBody, kept: DedupBody) -> Iterator[DatasetFile]:
    """Raises WorkFailed where one is gone."""
    for shard in kept.shards:
        yield DatasetFile(
            key=shard.blob, holds="documents", bytes=size(blobs, shard.blob), bytes_digest=shard.info.bytes_digest
        )
    for key, holds in ((kept.decisions, "decisions"), (kept.clusters, "duplicates"), (kept.cuts, "cuts")):
        if key:
            yield named(blobs, key, holds)
    for held_out in body.validation.shards:
        yield DatasetFile(
            key=held_out.blob, holds="validation", bytes=held_out.bytes, bytes_digest=held_out.bytes_digest
        )


def first_measured(blobs: Blobs, specs: Iterable[TokenizationSpec]) -> list[DatasetFile]:
    """The files with the languages of the documents: the first of these that is complete; else empty."""
    for spec in specs:
        if spec.measures_key:
            with contextlib.suppress(WorkFailed):
                ingested = fetching.manifest(blobs, spec.measures_key, spec.measures_digest, Kind.INGEST)
                return [named(blobs, key, "measures") for key in dict.fromkeys(IngestBody.read(ingested).measures)]
    return []


def named(blobs: Blobs, key: str, holds: str) -> DatasetFile:
    """A file whose key ends in the digest of its bytes, and a suffix. Raises WorkFailed where it is gone."""
    digest = f"blake3:{key.rpartition('/')[2].partition('.')[0]}"
    return DatasetFile(key=key, holds=holds, bytes=size(blobs, key), bytes_digest=digest)


def size(blobs: Blobs, key: str) -> int:
    try:
        return blobs.stat(key).size
    except BlobMissing as error:
        raise WorkFailed(f"the blob {key} is gone; run the recipe again that made it") from error
