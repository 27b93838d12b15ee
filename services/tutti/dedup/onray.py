"""Duplicates and cuts on a Ray cluster: the same files as from `clusters.find` and `lines.find`, made of document
shards that the nodes read.

Promises: nothing of Daft or Ray is imported before a search begins. The texts never come here; the names of what is
dropped do, and the ranges that are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tutti.dedup.clusters import ClusterResult, Compared, written
from tutti.dedup.components import Documents
from tutti.dedup.contamination import Contaminated
from tutti.dedup.cutting import Cutting, names_units
from tutti.dedup.evaluating import Evaluating
from tutti.dedup.lines import EXAMPLES, Example, LineLimits, Lines
from tutti.dedup.losses import Loss
from tutti.dedup.names import Names
from tutti.dedup.near import alone
from tutti.dedup.plan import REJECTED, Duplicates, Losses, contaminated, duplicates, losses
from tutti.dedup.ranges import Ranges
from tutti.dedup.reading import SHARDS, Placed, Reading, named
from tutti.dedup.representatives import EARLIER, EVALUATION, OWN, Standing
from tutti.dedup.settings import DedupSettings
from tutti.platform import cluster

if TYPE_CHECKING:
    from tutti.dedup.engine import Engine

ALONE: Compared[Placed] = Compared()
BUCKET_DOCUMENTS, BUCKET_DOCUMENTS_WITH_LINES = 1 << 16, 1 << 14
"""Documents of a bucket: their bands, the largest rows, take about 75 MB, and the lines of fewer as much."""


def lacking(settings: DedupSettings) -> str:
    """A message about what this machine lacks to use a cluster, and how to get it; "" if nothing."""
    if lacks := cluster.uninstalled("dedup", "daft", "ray"):
        return lacks
    if not (settings.ray and settings.ray_blobs):
        return "no cluster is known where dedup runs: set dedup.ray and dedup.ray_blobs"
    return ""


def find(
    settings: DedupSettings,
    own: Placed,
    near: float,
    scratch: Path,
    compared: Compared[Placed] = ALONE,
    wanted: LineLimits | None = None,
    *,
    clean: bool = False,
) -> tuple[ClusterResult, Lines | None]:
    """`search` on the cluster of the settings. Raises ClusterUnreachable too."""
    from tutti.dedup.engine import Engine, join  # what they import need not be installed

    cores = join(settings.ray)
    documents = sum(each.documents for each in (own, *compared.earlier))
    engine = Engine(buckets=max(2 * cores, documents // (BUCKET_DOCUMENTS_WITH_LINES if wanted else BUCKET_DOCUMENTS)))
    return search(engine, settings.ray_blobs, own, near, scratch, compared, wanted, clean=clean)


def search(
    engine: Engine,
    blobs: str,
    own: Placed,
    near: float,
    scratch: Path,
    compared: Compared[Placed] = ALONE,
    wanted: LineLimits | None = None,
    *,
    clean: bool = False,
) -> tuple[ClusterResult, Lines | None]:
    """The result of `clusters.find`, and that of `lines.find` for the kept documents, if it is requested and some are
    kept. `blobs` as the nodes reach them.

    Raises Unreadable, ConflictingDocument, TooManyTexts and UnreadableTexts.
    """
    reading, held = Reading(blobs), list[Contaminated]()
    if compared.evaluation is not None:
        evaluating = Evaluating(reading, compared.evaluation.shards, compared.sought)
        rows = contaminated(engine, evaluating, _shards([(OWN, own)])).to_pylist()
        held = sorted({each for each in (Contaminated(**row) for row in rows) if each.doc_id not in own.without})
    parts = [(OWN, replace(own, without=own.without.union(each.doc_id for each in held)))]
    parts += [(EARLIER, each) for each in compared.earlier]
    parts += [(EVALUATION, compared.evaluation)] if compared.evaluation is not None else []
    shards = _shards(parts)
    found = duplicates(engine, reading, shards, _rejected(parts), near)
    made = written(_standing(found), found.documents, scratch, held)
    if not (made.documents and (wanted or clean)):
        return made, None
    cutting = Cutting(reading, wanted, clean, names_units())
    return made, _lines(losses(engine, cutting, _shards(parts[:1]), found.staying()), scratch)


def _shards(parts: Sequence[tuple[str, Placed]]) -> pa.Table:
    """SHARDS of datasets, each with its part; shards and datasets have the numbers of their places."""
    places = [(part, of, *place) for of, (part, placed) in enumerate(parts) for place in placed.shards]
    rows = [dict(zip(SHARDS.names, (number, *place), strict=True)) for number, place in enumerate(places)]
    return pa.Table.from_pylist(rows, schema=SHARDS)


def _rejected(parts: Sequence[tuple[str, Placed]]) -> pa.Table:
    """REJECTED of datasets."""
    tables = [REJECTED.empty_table()]
    for of, (part, placed) in enumerate(parts):
        names = named(pa.array(sorted(placed.without), pa.string()), part)
        tables.append(pa.table([names, pa.array([of] * len(names), pa.int32())], schema=REJECTED))
    return pa.concat_tables(tables)


def _standing(found: Duplicates) -> Standing:
    """By document what stands for it, of both kinds."""
    exact, close = found.exact(), found.engine.table(found.near)
    names = Names(map(_spelled, (exact["doc"], exact["kept"], close["doc"], close["kept"])))

    def numbers(documents: pa.ChunkedArray) -> Documents:
        return names.documents(_spelled(documents))

    equal, near = np.arange(len(names)), alone(len(names))
    equal[numbers(exact["doc"])] = numbers(exact["kept"])
    documents = numbers(close["doc"])
    near.roots[documents] = numbers(close["kept"])
    near.similarity[documents] = close["jaccard"].to_numpy()
    return Standing.through(names, equal, near)


def _lines(found: Losses, scratch: Path) -> Lines:
    names = Names(_ids(batch["doc"]) for batch in found.ranges.to_batches())
    ranges = Ranges(scratch)
    for batch in found.ranges.to_batches():
        ranges.add(names.documents(_ids(batch["doc"])), np.stack([batch["begin"], batch["end"]], axis=1))
    lost = Loss(*(sum(found.sums[f"lost_{field.name}"].to_pylist()) for field in fields(Loss)))
    gone = [(row["doc"][1:].hex(), row["left"], row["bare"]) for row in found.gone.to_pylist()]
    common = sorted(found.examples.to_pylist(), key=lambda row: (-row["documents"], row["doc"], row["number"]))
    return Lines.of(
        ranges.write(names),
        lost,
        short=[(doc_id, left) for doc_id, left, bare in gone if not bare],
        examples=[Example(row["text"], row["documents"]) for row in common[:EXAMPLES]],
        bare=[doc_id for doc_id, _, bare in gone if bare],
    )


def _spelled(documents: pa.ChunkedArray) -> pa.Array:
    """The letters of parts and the ids, as text."""
    return pa.array([each[:1].decode() + each[1:].hex() for each in documents.to_pylist()], pa.string())


def _ids(documents: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The ids without the letters of parts."""
    return pa.array([each[1:].hex() for each in documents.to_pylist()], pa.string())
