"""MinHash: 120 permutations of the shingles of a text, as 20 bands of 6 (Broder 1997; Leskovec, Rajaraman and Ullman,
Mining of Massive Datasets, section 3.4).

Two texts of Jaccard similarity s share a band with probability 1 - (1 - s^6)^20: .9977 at .8, .27 at .5. The name of a
band covers its number, so that equal names are equal bands.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.corpus.texts import buffers
from tutti.dedup.folding import folding
from tutti.dedup.kernel import address, native
from tutti.dedup.shingles import ODD, Bytes, Counts, Names, mix, of_words, words

BANDS, ROWS = 20, 6
PERMUTATIONS = BANDS * ROWS
BLOCK = 2048  # shingles that numpy permutes together

SCHEMA = pa.schema(
    [
        pa.field("bands", pa.list_(pa.uint64(), BANDS), nullable=False),
        pa.field("shingles", pa.int64(), nullable=False),
    ]
)


def bands(texts: pa.Array) -> pa.RecordBatch:
    """One row of SCHEMA for each text of a string array: its bands, and how many shingles it has.

    A text without shingles has no bands: they are 0 and mean nothing. Raises UnreadableTexts.
    """
    data, offsets = buffers(texts)
    library = native().library
    keys, counts = by_numpy(data, offsets) if library is None else by_kernel(library, data, offsets)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(keys.ravel()), type=SCHEMA.field("bands").type)
    return pa.record_batch([lists, pa.array(counts)], schema=SCHEMA)


@functools.cache
def permutations() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """(a, b) of the permutations x → a·x + b modulo 2^32, uint32 [PERMUTATIONS] each; a is odd."""
    drawn = mix(np.arange(1, PERMUTATIONS + 1, dtype=np.uint64) * np.uint64(ODD))
    return drawn.astype(np.uint32) | np.uint32(1), (drawn >> np.uint64(32)).astype(np.uint32)


def by_kernel(library: ctypes.CDLL, data: Bytes, offsets: Counts) -> tuple[Names, Counts]:
    texts = len(offsets) - 1
    keys, counts = np.empty((texts, BANDS), np.uint64), np.empty(texts, np.int64)
    library.bands(
        address(data),
        address(offsets),
        ctypes.c_int64(texts),
        address(folding()),
        *map(address, permutations()),
        address(keys),
        address(counts),
    )
    return keys, counts


def by_numpy(data: Bytes, offsets: Counts) -> tuple[Names, Counts]:
    texts = len(offsets) - 1
    keys, counts = np.zeros((texts, BANDS), np.uint64), np.zeros(texts, np.int64)
    for text in range(texts):
        found = of_words(words(data[offsets[text] : offsets[text + 1]]))
        counts[text] = len(found)
        if len(found):
            keys[text] = _bands(least(found))
    return keys, counts


def least(shingles: Names) -> npt.NDArray[np.uint32]:
    """The least of each permutation over the upper halves of at least one shingle, uint32 [PERMUTATIONS]."""
    a, b = permutations()
    upper = (shingles >> np.uint64(32)).astype(np.uint32)[:, None]
    parts = [(upper[at : at + BLOCK] * a + b).min(axis=0) for at in range(0, len(upper), BLOCK)]
    return np.minimum.reduce(parts)  # type: ignore[no-any-return]


def _bands(signature: npt.NDArray[np.uint32]) -> Names:
    keys = np.arange(1, BANDS + 1, dtype=np.uint64)
    for row in signature.reshape(BANDS, ROWS).T.astype(np.uint64):
        keys = mix(keys * np.uint64(ODD) ^ row)
    return keys
