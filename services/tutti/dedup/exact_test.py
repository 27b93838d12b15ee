"""Exact duplicates: the smallest id stays, for any order of arrival."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.dedup import exact
from tutti.dedup.exact import ConflictingDocument, exact_duplicates
from tutti.dedup.names import Names

DIGESTS = st.sampled_from(["w", "x", "yy" * 20, "yy" * 20 + "z", "z" * 8])
DOCUMENTS = st.dictionaries(st.text("0123456789abcdef", min_size=4, max_size=4), DIGESTS, max_size=20)


def found(documents: Iterable[tuple[str, str]], batch: int = 3) -> dict[str, str]:
    """The documents that do not stay, and what stands for each."""
    rows = list(documents)
    columns = [pa.array([row[place] for row in rows], pa.string()) for place in range(2)]
    table = pa.table(columns, ["doc_id", "text_digest"])
    names = Names([columns[0]])
    first = exact_duplicates(lambda asked: table.select(list(asked)).to_batches(batch), names)
    dropped = np.flatnonzero(first != np.arange(len(names)))
    return dict(zip(*(names.ids(each).to_pylist() for each in (dropped, first[dropped])), strict=True))


def test_of_documents_with_one_text_the_smallest_id_stays() -> None:
    assert found([("c", "x"), ("b", "y"), ("a", "x"), ("d", "x"), ("a", "x")]) == {"c": "a", "d": "a"}


@given(documents=DOCUMENTS, data=st.data())
def test_what_is_equal_is_found_in_any_order(documents: dict[str, str], data: st.DataObject) -> None:
    order = data.draw(st.permutations(list(documents.items())))
    holders = {digest: sorted(id for id, text in documents.items() if text == digest) for digest in documents.values()}
    expected = {each: ids[0] for ids in holders.values() for each in ids[1:]}
    assert found(order, data.draw(st.integers(1, 9))) == expected


def test_texts_are_compared_by_their_whole_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = found(documents := [("a", "x"), ("b", "y"), ("c", "x"), ("d", "z")])
    marks = exact._marks
    monkeypatch.setattr(exact, "_marks", lambda digests: marks(digests) & 0)
    assert found(documents) == expected == {"c": "a"}


@pytest.mark.parametrize("batch", [1, 2])
def test_one_id_with_two_texts_is_refused(batch: int) -> None:
    with pytest.raises(ConflictingDocument, match="document a has"):
        found([("2b", "x"), ("2a", "x"), ("2a", "y"), ("2a", "x")], batch)
