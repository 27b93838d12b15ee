"""Steps: what is done to the rows that an exchange brought together; each is a function Arrow table → Arrow table.

Promises: the rows that come out, as a set, are a function of the set of rows of the whole key, whatever their order and
which other keys came with them. A document is named by the letter of its part and the 32 bytes of its id, whose
order is that of the embedded search (`representatives.py`). `plan.py` says which step follows which.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tutti.dedup.candidates import pairs
from tutti.dedup.columns import Numbers, as_numbers, flags, in_pairs, numbered, smallest, table
from tutti.dedup.minhash import BANDS, bands
from tutti.dedup.representatives import OWN
from tutti.dedup.rows import in_order
from tutti.dedup.verification import SetFile, sets, verified

PAIRS = 4096
"""Pairs that are verified together, or up to twice as many; they have at most twice as many documents."""

_BINARY, _SHARD = pa.binary(), pa.int32()
READ = pa.schema([("doc", _BINARY), ("text", _BINARY), ("shard", _SHARD), ("of", pa.int32())])
DOCUMENTS = pa.schema(
    [("doc", _BINARY), ("text", _BINARY), ("shard", _SHARD), ("own", pa.bool_()), ("conflict", pa.bool_())]
)
STANDING = pa.schema([("doc", _BINARY), ("kept", _BINARY), ("shard", _SHARD), ("own", pa.bool_())])
BANDED = pa.schema([("band", pa.uint64()), ("doc", _BINARY), ("shard", _SHARD)])
PAIRED = pa.schema([("node", _BINARY), ("other", _BINARY), ("node_shard", _SHARD), ("other_shard", _SHARD)])
LINKED = pa.schema([("node", _BINARY), ("other", _BINARY), ("changed", pa.bool_())])
LABELLED = pa.schema([("component", _BINARY), *PAIRED])
GROUPED = pa.schema([("group", _BINARY), ("node", _BINARY), ("other", _BINARY), ("shard", _SHARD)])
TOLD = pa.schema([("group", _BINARY), ("node", _BINARY), ("text", pa.large_string())])
SIMILAR = pa.schema([("node", _BINARY), ("other", _BINARY), ("jaccard", pa.float64())])
NEAR = pa.schema([("doc", _BINARY), ("kept", _BINARY), ("jaccard", pa.float64())])
STAYING = pa.schema([("doc", _BINARY), ("shard", _SHARD)])


@dataclass(frozen=True)
class Step:
    """A function of a table of `takes`, whose columns are null where rows of several kinds come together."""

    does: Callable[[pa.Table], pa.Table]
    takes: pa.Schema
    gives: pa.Schema


def both(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """The columns of rows of two kinds."""
    return pa.schema([*one, *(field for field in other if field.name not in one.names)])


def chosen(rows: pa.Table) -> pa.Table:
    """By doc, READ, and rows without a shard of what a dataset rejected → DOCUMENTS that some dataset has, each once.

    `shard` is the first of these that has it; `conflict` is true where it came with two texts, else null.
    """
    names, doc = numbered(rows["doc"])
    _, text = numbered(rows["text"])
    shard, of = as_numbers(rows["shard"], -1), as_numbers(rows["of"], 0).astype(np.int64)
    held = doc * (of.max(initial=0) + 1) + of
    here = np.flatnonzero((shard >= 0) & ~np.isin(held, held[shard < 0]))
    pairs = in_order(in_pairs(doc[here], text[here])).astype(np.int64)
    stays, texts = np.unique(pairs[:, 0], return_counts=True)
    first = smallest(doc[here], shard[here], len(names))[stays]
    place = np.zeros(len(names), np.int64)
    place[doc[here]] = here
    found = names.take(pa.array(stays))
    text_of = rows["text"].take(pa.array(place[stays]))
    return table(DOCUMENTS, found, text_of, first, flags(_own(found)), flags(texts > 1))


def equal(rows: pa.Table) -> pa.Table:
    """By text, DOCUMENTS → STANDING: beside each document the smallest with its text, null where it is that itself."""
    names, doc = numbered(rows["doc"])
    texts, text = numbered(rows["text"])
    least = smallest(text, doc, len(texts))[text]
    kept = names.take(pa.array(least, mask=least == doc))
    return table(STANDING, rows["doc"], kept, rows["shard"], rows["own"])


def banded(ids: pa.Array, texts: pa.Array, shard: int) -> pa.Table:
    """Documents of a shard and their texts → BANDED; a text without shingles has no band."""
    found = bands(texts)
    some = found["shingles"].to_numpy() > 0
    keys = found["bands"].flatten().to_numpy().reshape(-1, BANDS)[some].ravel()
    doc = ids.take(np.repeat(np.flatnonzero(some), BANDS))
    return table(BANDED, keys, doc, np.full(len(keys), shard))


def met(rows: pa.Table) -> pa.Table:
    """By band, BANDED → PAIRED: pairs of candidates, of which `node` is the larger; one may come of several bands."""
    names, doc = numbered(rows["doc"])
    shard = smallest(doc, as_numbers(rows["shard"], -1), len(names))
    ordered = in_order(in_pairs(as_numbers(rows["band"], 0).astype(np.uint64), doc.astype(np.uint64)))
    met = [in_pairs(*both) for both in pairs([ordered])]
    found = in_order(np.concatenate([np.zeros((0, 2), np.uint64), *met])).astype(np.int64)
    other, node = found.T
    return table(PAIRED, names.take(node), names.take(other), shard[node], shard[other])


def small_star(rows: pa.Table) -> pa.Table:
    """By node, LINKED or PAIRED → LINKED: a document and the smaller ones that it is linked with, to their smallest.

    Links to larger ones are left out: those come with the larger. What comes out goes both ways. With `large_star` it
    is a step of Kiveris et al., Connected Components in MapReduce and Beyond (SoCC 2014), section 3.
    """
    names, node, other = numbered(rows["node"], rows["other"])
    smaller = other < node
    node, other = node[smaller], other[smaller]
    least = smallest(node, other, len(names))[node]
    before = np.asarray(rows["changed"].fill_null(False))[smaller]
    return _links(names, np.append(node, other), np.append(least, least), np.append(before, other != least))


def large_star(rows: pa.Table) -> pa.Table:
    """By node, LINKED both ways → LINKED: the larger ones that a document is linked with, to the smallest of all."""
    names, node, other = numbered(rows["node"], rows["other"])
    least = np.minimum(smallest(node, other, len(names)), np.arange(len(names)))[node]
    larger = other > node
    changed = least != node
    return _links(names, other[larger], least[larger], changed[larger])


def labelled(rows: pa.Table) -> pa.Table:
    """By node, PAIRED and the links of `small_star` when nothing changes any more → LABELLED."""
    names, node, other = numbered(rows["node"], rows["other"])
    pair = rows["node_shard"].is_valid().to_numpy(zero_copy_only=False)
    root = np.minimum(smallest(node[~pair], other[~pair], len(names)), np.arange(len(names)))
    found = rows.filter(pa.array(pair))
    columns = [found[name] for name in PAIRED.names]
    return table(LABELLED, names.take(root[node[pair]]), *columns)


def grouped(rows: pa.Table) -> pa.Table:
    """By component, LABELLED → GROUPED: pairs that are verified together, and (without `other`) where their texts are.

    A component is in one group unless it has more than PAIRS pairs; so most texts are read once, and memory is bounded.
    """
    names, component, node, other = numbered(rows["component"], rows["node"], rows["other"])
    order = np.lexsort((node, other, component))
    component, node, other = component[order], node[order], other[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (component[1:] != component[:-1]) | (node[1:] != node[:-1]) | (other[1:] != other[:-1])
    component, node, other, order = component[new], node[new], other[new], order[new]
    starts, sizes = np.unique(component, return_index=True, return_counts=True)[1:]
    place = np.where(np.repeat(sizes, sizes) > PAIRS, np.arange(len(component)), np.repeat(starts, sizes)) // PAIRS
    _, first, group = np.unique(place, return_index=True, return_inverse=True)
    keys = pa.array(
        [names[int(component[at])].as_py() + number.to_bytes(4, "big") for number, at in enumerate(first)], _BINARY
    )
    shards = [as_numbers(rows[f"{side}_shard"], -1)[order] for side in ("node", "other")]
    both = np.append(group, group) * len(names) + np.append(node, other)
    wanted, where = np.unique(both, return_index=True)
    texts, document = np.divmod(wanted, max(len(names), 1))
    return pa.concat_tables(
        [
            table(GROUPED, keys.take(group), names.take(node), names.take(other), None),
            table(GROUPED, keys.take(texts), names.take(document), None, np.concatenate(shards)[where]),
        ]
    )


def similar(rows: pa.Table, *, threshold: float) -> pa.Table:
    """By group, the pairs of GROUPED and TOLD → SIMILAR, both ways."""
    names, node, other = numbered(rows["node"], rows["other"])
    pair = other >= 0
    told, texts = node[~pair], rows["text"].filter(pa.array(~pair))
    with (
        tempfile.TemporaryDirectory(prefix="tutti-sets-") as folder,
        closing(SetFile(Path(folder, "sets"), len(names))) as store,
    ):
        store.add(told, *sets(texts.combine_chunks()))
        found = list(verified(store, other[pair], node[pair], threshold=threshold))
    left, right, jaccard = (
        np.concatenate([np.zeros(0, kind), *each])
        for each, kind in zip(
            zip(*found, strict=True) if found else ((), (), ()), (np.int64, np.int64, np.float64), strict=True
        )
    )
    sides = np.append(left, right), np.append(right, left)
    return table(SIMILAR, *(names.take(side) for side in sides), np.append(jaccard, jaccard))


def closest(rows: pa.Table) -> pa.Table:
    """By node, SIMILAR and the links of `small_star` when nothing changes any more → NEAR, without those that stay."""
    names, node, other = numbered(rows["node"], rows["other"])
    label = rows["jaccard"].is_null().to_numpy(zero_copy_only=False)
    kept = smallest(node[label], other[label], len(names))
    linked, similarity = np.zeros(len(names), np.bool_), np.zeros(len(names))
    linked[node[~label]] = True
    direct = ~label & (other == kept[node])
    similarity[node[direct]] = rows["jaccard"].filter(pa.array(direct)).to_numpy()
    dropped = np.flatnonzero((kept < np.arange(len(names))) & linked)
    return table(NEAR, names.take(dropped), names.take(kept[dropped]), similarity[dropped])


def staying(rows: pa.Table) -> pa.Table:
    """By doc, STANDING and NEAR → STAYING: our own for which nothing stands."""
    _, doc = numbered(rows["doc"])
    first = pc.and_(rows["own"].is_valid(), rows["kept"].is_null())  # type: ignore[attr-defined]
    near = rows["jaccard"].is_valid().to_numpy(zero_copy_only=False)
    stays = np.asarray(first) & ~np.isin(doc, doc[near])
    return rows.select(STAYING.names).filter(pa.array(stays)).cast(STAYING)


def _own(names: pa.Array) -> npt.NDArray[np.bool_]:
    found = pc.starts_with(names, OWN)  # type: ignore[attr-defined]
    return np.asarray(found.to_numpy(zero_copy_only=False))


def _links(names: pa.Array, node: Numbers, other: Numbers, changed: npt.NDArray[np.bool_]) -> pa.Table:
    """Both ways, each once and without those of a document to itself; changed if one of those that are equal was."""
    apart = node != other
    node, other, changed = node[apart], other[apart], changed[apart]
    both = np.append(node, other) * len(names) + np.append(other, node)
    links, where = np.unique(both, return_inverse=True)
    any_changed = np.zeros(len(links), np.bool_)
    np.logical_or.at(any_changed, where, np.append(changed, changed))
    node, other = np.divmod(links, max(len(names), 1))
    return table(LINKED, names.take(node), names.take(other), flags(any_changed))
