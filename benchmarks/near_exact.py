"""Every pair of near-duplicates, by an exact join: `python benchmarks/near_exact.py OUT SHARD...`.

Shares no code with what it judges. A document is the set of its runs of five words, which lie between spaces. Two are
similar when these sets have a Jaccard similarity of 4/5 or more. Promises: writes all pairs (doc_id, smaller first) as
JSON to OUT, none missed and none too many: five words become a number by tables, not by hashes; of the runs of a set of
n, in the order of how few documents have them, a similar one shares one of the first n - ceil(4n/5) + 1 (prefix filter,
Chaudhuri et al. 2006, Bayardo et al. 2007), and whoever shares one is compared in full. Prints how many were.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

RUN = 5
LARGEST = 1 << 63
OVER, UNDER = 4, 5
"""The least similarity, as a fraction."""

Numbers = npt.NDArray[np.int64]


def runs(texts: Iterable[str]) -> tuple[Numbers, Numbers]:
    """int64 [runs]: the document of each run of five words, and a number for the words: equal numbers, equal words."""
    known: dict[str, int] = {}
    lines = [np.array([known.setdefault(word, len(known)) for word in text.split(" ")], np.int32) for text in texts]
    lines = [line if len(line) >= RUN else line[:0] for line in lines]
    doc = np.repeat(np.arange(len(lines)), [max(0, len(line) - RUN + 1) for line in lines])
    found, most = np.zeros(len(doc), np.int64), 1
    for place in range(RUN):
        if most * len(known) >= LARGEST:
            found = np.unique(found, return_inverse=True)[1]
            most = len(doc)
        found *= len(known)
        found += np.concatenate([line[place : len(line) - RUN + 1 + place] for line in lines])
        most *= len(known)
    return doc, np.unique(found, return_inverse=True)[1]


def ordered(doc: Numbers, run: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The runs of each document once, those that few documents have first: document and place of each, and how many
    documents have the run of a place.
    """
    many = int(run.max()) + 1
    once = np.unique(doc * many + run)
    doc, run = once // many, once % many
    holders = np.bincount(run, minlength=many)
    order = np.argsort(holders, kind="stable")
    place = np.empty(many, np.int64)
    place[order] = np.arange(many)
    keys = np.sort(doc * many + place[run])
    return keys // many, keys % many, holders[order]


def candidates(doc: Numbers, place: Numbers, holders: Numbers) -> Numbers:
    """int64 [pairs, 2]: documents that share a run of their prefixes, each pair once."""
    sizes = np.bincount(doc)
    begins = np.cumsum(sizes) - sizes
    prefix = sizes - -(-OVER * sizes // UNDER) + 1
    first = (np.arange(len(doc)) - begins[doc] < prefix[doc]) & (holders[place] > 1)
    order = np.lexsort((doc[first], place[first]))
    doc, place, count = doc[first][order], place[first][order], len(sizes)
    found, step = [np.zeros(0, np.int64)], 1
    while len(same := np.flatnonzero(place[step:] == place[:-step])):
        found.append(np.unique(doc[same] * count + doc[same + step]))
        step += 1
    codes = np.unique(np.concatenate(found))
    return np.stack([codes // count, codes % count], axis=1)


def similar(pairs: Numbers, doc: Numbers, place: Numbers) -> list[tuple[int, int]]:
    """Those of the pairs whose sets are similar."""
    ends = np.cumsum(np.bincount(doc))
    sets = np.split(place, ends[:-1])
    found = []
    for one, other in pairs.tolist():
        a, b = sets[one], sets[other]
        if UNDER * min(len(a), len(b)) < OVER * max(len(a), len(b)):
            continue
        both = len(np.intersect1d(a, b, assume_unique=True))
        if UNDER * both >= OVER * (len(a) + len(b) - both):
            found.append((one, other))
    return found


def join(names: list[str], texts: Iterable[str]) -> tuple[list[tuple[str, str]], int]:
    """Names of similar documents, smaller first, and how many pairs were compared."""
    doc, run = runs(texts)
    if not len(doc):
        return [], 0
    doc, place, holders = ordered(doc, run)
    compared = candidates(doc, place, holders)
    found = [sorted((names[one], names[other])) for one, other in similar(compared, doc, place)]
    return sorted((one, other) for one, other in found), len(compared)


def _read(shards: list[Path], column: str) -> Iterator[str]:
    """The values of a column of all shards."""
    for shard in shards:
        with pq.ParquetFile(shard) as file:  # type: ignore[no-untyped-call]
            for batch in file.iter_batches(1000, columns=[column]):
                yield from batch[column].to_pylist()


def main() -> None:
    out, *shards = map(Path, sys.argv[1:])
    names = list(_read(shards, "doc_id"))
    if len(set(names)) < len(names):
        raise SystemExit("a document came twice; expected each once")
    found, compared = join(names, _read(shards, "text"))
    out.write_text(json.dumps(found))
    print(json.dumps({"documents": len(names), "compared": compared, "pairs": len(found)}))


if __name__ == "__main__":
    main()
