"""A dataset becomes an index of the verbatim spans of its training split.

Promises: a function of the token shards; memory holds a part of them, and scratch about 50 bytes a token.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.chassis import version
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import publish, put_content
from tutti.contracts.common.v1 import Artifact
from tutti.contracts.tokenization.v1 import IndexSpec
from tutti.corpus.spans.building import IndexInfo, build
from tutti.corpus.spans.manifest import IndexBody
from tutti.corpus.tokens.dataset import DatasetBody
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind
from tutti.staging import fetching

LOGIC_VERSION = "index-1"


@dataclass(frozen=True)
class Indexed:
    """The index of `dataset` (the name of the resource); all of it is in the store."""

    dataset: str
    info: IndexInfo
    result: Artifact


def built(shards: Sequence[Path], target: Path) -> IndexInfo:
    """Write the index of all token shards of a split. Raises WorkFailed."""
    try:
        return build(shards, target)
    except CorpusError as error:
        raise WorkFailed(f"the token shards cannot be indexed: {error}") from error


def index(context: TaskContext, spec: IndexSpec) -> Indexed:
    """Fetch the token shards of the training split, sort them in the pool, store the index. Raises WorkFailed."""
    blobs = context.host.blobs
    manifest = fetching.manifest(blobs, spec.manifest_key, spec.content_digest, Kind.DATASET)
    dataset = f"datasets/{manifest.content_digest.removeprefix('blake3:')}"
    with tempfile.TemporaryDirectory(prefix="tutti-index-") as scratch:
        folder = Path(scratch)
        shards = [
            fetching.blob(blobs, entry.blob, entry.bytes_digest, folder / f"{number}.tokens")
            for number, entry in enumerate(DatasetBody.read(manifest).train.shards)
        ]
        context.check()
        info = context.pool(built, shards, folder / "index")
        context.check()
        key = f"tokenization/indexes/{info.bytes_digest.removeprefix('blake3:')}.spans"
        put_content(blobs, key, folder / "index", info.bytes_digest)
    made = IndexBody(key, info).manifest(dataset=dataset, producer=version.producer("tokenization"))
    return Indexed(dataset, info, publish(blobs, "tokenization/indexes", made, data_bytes=info.bytes))
