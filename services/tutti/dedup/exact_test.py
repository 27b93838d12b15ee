"""Exact duplicates: the smallest id stays, for any order of arrival."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.dedup.exact import Cluster, ConflictingDocument, exact_duplicates

DOCUMENTS = st.dictionaries(st.text("0123456789abcdef", min_size=4, max_size=4), st.sampled_from("wxyz"), max_size=20)


def test_of_documents_with_one_text_the_smallest_id_stays() -> None:
    found = exact_duplicates([("c", "x"), ("b", "y"), ("a", "x"), ("d", "x"), ("a", "x")])
    assert found.kept == ("a", "b")
    assert found.clusters == (Cluster("a", ("c", "d"), "x"),)
    assert found.dropped == 2


@given(documents=DOCUMENTS, data=st.data())
def test_the_answer_does_not_depend_on_the_order(documents: dict[str, str], data: st.DataObject) -> None:
    order = data.draw(st.permutations(list(documents.items())))
    found = exact_duplicates(order)
    assert found == exact_duplicates(sorted(documents.items()))
    assert sorted(found.kept + tuple(d for c in found.clusters for d in c.dropped)) == sorted(documents)
    assert len({documents[kept] for kept in found.kept}) == len(found.kept)


def test_one_id_with_two_texts_is_refused() -> None:
    with pytest.raises(ConflictingDocument, match="document a"):
        exact_duplicates([("a", "x"), ("a", "y")])
