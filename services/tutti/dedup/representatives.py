"""Representatives of duplicates: of documents with the same or nearly the same text, the first in the order of ids.

What is compared is one order of three parts, each with its letter before its ids: evaluation texts, documents of
earlier datasets, our own. Only those of our own are dropped; a document of an earlier part can stand for them. Memory
is some 40 bytes a document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tutti.corpus.documents import duplicates
from tutti.corpus.documents.duplicates import How
from tutti.dedup.components import Documents
from tutti.dedup.names import Names
from tutti.dedup.near import Near

EVALUATION, EARLIER, OWN = "0", "1", "2"
ROWS = 1 << 15

_KINDS = (How.CONTAMINATED_NEAR, How.CONTAMINATED_NEAR, How.EARLIER, How.EARLIER_NEAR, How.EXACT, How.NEAR)
"""By part, of what is equal and of what is near."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Our own documents that are dropped, ascending, and what stands for each; `kind` is a place in _KINDS."""

    names: Names
    documents: Documents
    kept: Documents
    kind: npt.NDArray[np.int8]
    jaccard: npt.NDArray[np.float64]

    @classmethod
    def through(cls, names: Names, equal: Documents, near: Near) -> Standing:
        """Both together: who stood for equal texts and was dropped later is stood for by another, and so are they.

        `equal`: for each document the first with its text. What is equal to a document of ours that is nearly the same
        as another part's is nearly the same as that too.
        """
        first = near.roots[equal]
        own = names.before(OWN)
        documents = own + np.flatnonzero(first[own:] != np.arange(own, len(names)))
        same, kept = equal[documents], first[documents]
        starts = [names.before(EARLIER), own]
        part, of = (np.searchsorted(starts, each, "right") for each in (kept, same))
        close = (same == documents) | (part != of)
        kind = (2 * part + close).astype(np.int8)
        return cls(names, documents, kept, kind, np.where(close, near.similarity[same], 1.0))

    def count(self, *how: How) -> int:
        """The number of documents dropped for one of these reasons."""
        return int(np.isin(self.kind, [place for place, each in enumerate(_KINDS) if each in how]).sum())

    def clusters(self) -> int:
        """The number of documents that stand for dropped duplicates."""
        return len(np.unique(self.kept[self.kind >= _KINDS.index(How.EARLIER)]))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Rows of duplicates.schema(), by id."""
        kinds = pa.array([each.value for each in _KINDS])
        for begin in range(0, len(self.documents), ROWS):
            part = slice(begin, begin + ROWS)
            how = pa.DictionaryArray.from_arrays(self.kind[part], kinds).cast(pa.string())
            columns = [self._ids(self.documents[part]), self._ids(self.kept[part]), how, pa.array(self.jaccard[part])]
            yield pa.record_batch(columns, schema=duplicates.schema())

    def _ids(self, documents: Documents) -> pa.Array:
        """Without the letter of their part."""
        return pc.utf8_slice_codeunits(self.names.ids(documents), 1)  # type: ignore[attr-defined]
