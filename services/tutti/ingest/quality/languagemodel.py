"""The model that tells languages apart: py3langid's, naive Bayes over byte n-grams that an automaton finds.

Promises: the scores of a text are sums in float64 in the order in which its n-grams are first met, the same bits from
the kernel (languagemodel.c) and from numpy, on every machine; the model is unpacked once (languagetables.py).
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

from tutti.ingest.quality import languagetables
from tutti.ingest.quality.languagetables import Model
from tutti.native.arrays import np, npt
from tutti.native.native import Kernel, NoKernel, cache_folder, kernel

PACKED = "data/model.npz.xz"
"""The model of py3langid, below its package; that is not imported for it, since it is needed once a machine."""

_SOURCE = Path(__file__).with_suffix(".c")
Scores: TypeAlias = "npt.NDArray[np.float64]"


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("next", "row", "feature", "table", "prior")),
        *((name, ctypes.c_int64) for name in ("features", "languages")),
    ]


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


@functools.cache
def model() -> Model:
    """The model that py3langid carries."""
    spec = find_spec("py3langid")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("no module py3langid; install tutti with the extra data")
    try:
        folder = cache_folder(os.environ)
    except NoKernel:
        folder = None
    return languagetables.model(Path(spec.origin).parent / PACKED, folder)


def classify(texts: Sequence[bytes]) -> list[tuple[str, float]]:
    """The most likely language of each text in UTF-8, and its probability."""
    if not texts:
        return []
    scores = score(texts)
    # The square root of the length keeps the model as sure of a long text as it should be.
    scores /= np.sqrt(np.array([[max(len(text), 1)] for text in texts], np.float64))
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    for first, other in model().alike:
        scores[:, first] += scores[:, other]
        scores[:, other] = 0
    best = scores.argmax(axis=1)
    return [(model().codes[at], float(row[at])) for at, row in zip(best, scores, strict=True)]


def score(texts: Sequence[bytes]) -> Scores:
    """float64 [texts, languages]: the logarithm of what the model makes of each; 0 where it knows nothing of a text."""
    library = native().library
    return np.stack([sums(text) for text in texts]) if library is None else _by_kernel(library, texts)


def sums(text: bytes) -> Scores:
    """The scores of one text, float64 [languages]: the definition that the kernel is held to."""
    known, state, met = model(), 0, Counter[int]()
    for byte in text:
        state = int(known.next[(int(known.row[state]) << 8) + byte])
        met[int(known.feature[state])] += 1
    del met[-1]
    if not met:
        return np.zeros(len(known.codes))
    weights = _weights(max(met.values()))[list(met.values())]
    # Not `sum`, which may add in another order.
    added: Scores = np.add.accumulate(weights[:, None] * known.table[list(met)].astype(np.float64))[-1]
    return added + known.prior


def _weights(most: int) -> Scores:
    """The weight of a feature by its number of occurrences, from 0 to `most`, in float32 precision."""
    return np.log1p(np.arange(most + 1, dtype=np.float64)).astype(np.float32).astype(np.float64)


def _by_kernel(library: ctypes.CDLL, texts: Sequence[bytes]) -> Scores:
    known = model()
    arrays = (known.next, known.row, known.feature, known.table, known.prior)
    given = _Model(*(array.ctypes.data for array in arrays), *known.table.shape)
    offsets = np.array([0, *accumulate(map(len, texts))], np.int64)
    weights = _weights(max(map(len, texts)))
    scores = np.empty((len(texts), len(known.codes)))
    failed = library.score(
        ctypes.byref(given),
        b"".join(texts),
        offsets.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(len(texts)),
        weights.ctypes.data_as(ctypes.c_void_p),
        scores.ctypes.data_as(ctypes.c_void_p),
    )
    if failed:
        raise MemoryError(f"{offsets[-1]} bytes of text in {len(texts)} samples; give smaller batches")
    return scores
