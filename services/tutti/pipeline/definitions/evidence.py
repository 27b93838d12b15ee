"""Evidence that a result is still there: its manifest, and every blob that the manifest names.

Promises: bytes are compared with their digests; only blobs that are large and were verified when they were written are
compared by size: document shards after ingest, and the checkpoints before the last one.
"""

from collections.abc import Iterable

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.checkpoints.errors import CheckpointError
from tutti.pipeline.definitions.definition import StageDef
from tutti.pipeline.recipes.values import Result
from tutti.records.errors import CorpusError


def missing(blobs: Blobs, stage: StageDef, result: Result, before: Iterable[Result] = ()) -> str:
    """A message about what is missing of a result; "" when everything exists. Raises BlobsUnavailable.

    `before` are the results that the work made on the way.
    """
    return _lacks(blobs, stage, result, thorough=True) or next(
        (lacks for each in before if (lacks := _lacks(blobs, stage, each, thorough=False))), ""
    )


def written(blobs: Blobs, stage: StageDef, result: Result) -> int:
    """Bytes that a stage wrote, by its manifest; not those that it only refers to.

    Raises BlobMissing, CorpusError, CheckpointError, BlobsUnavailable.
    """
    data = blobs.get(result.manifest_key)
    _, listed = stage.listed(data, thorough=False)
    return len(data) + sum(each.written(blobs) for each in listed)


def _lacks(blobs: Blobs, stage: StageDef, result: Result, *, thorough: bool) -> str:
    try:
        data = blobs.get(result.manifest_key)
    except BlobMissing:
        return f"{result.manifest_key} is gone"
    try:
        digest, listed = stage.listed(data, thorough=thorough)
    except (CorpusError, CheckpointError) as error:
        return f"{result.manifest_key} cannot be read: {error}"
    if digest != result.content_digest:
        return f"{result.manifest_key} is {digest}, expected {result.content_digest}"
    return next((lacks for expected in listed if (lacks := expected.lacks(blobs))), "")
