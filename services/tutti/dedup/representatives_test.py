"""Who stands for whom, when what is equal and what is near are taken together."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.documents.duplicates import How
from tutti.dedup.names import Names
from tutti.dedup.near import Near
from tutti.dedup.representatives import EARLIER, EVALUATION, OWN, Standing

IDS = [f"{part}{letter}" for part in (EVALUATION, EARLIER, OWN) for letter in "abcd"]


@given(texts=st.lists(st.sampled_from("xyz"), min_size=12, max_size=12), data=st.data())
def test_whatever_stands_for_another_stays_and_only_our_own_are_dropped(texts: list[str], data: st.DataObject) -> None:
    equal = np.array([texts.index(text) for text in texts])
    roots, closest = np.arange(len(IDS)), np.zeros(len(IDS))
    firsts = sorted({*equal.tolist()})
    for place, document in enumerate(firsts[1:], 1):
        if data.draw(st.booleans()):
            roots[document] = data.draw(st.sampled_from([each for each in firsts[:place] if roots[each] == each]))
            closest[document] = 0.9
    standing = Standing.through(Names([pa.array(IDS)]), equal, Near(roots, closest))
    rows = [row for batch in standing.rows() for row in batch.to_pylist()]

    first = {own: roots[equal[number]] for number, own in enumerate(IDS)}
    dropped = {own: IDS[kept] for number, (own, kept) in enumerate(first.items()) if own[0] == OWN and kept != number}
    assert {row["doc_id"]: row["kept"] for row in rows} == {own[1:]: kept[1:] for own, kept in dropped.items()}
    assert not {kept for kept in dropped.values()} & dropped.keys()
    for row, (own, kept) in zip(rows, sorted(dropped.items()), strict=True):
        same = texts[IDS.index(own)] == texts[IDS.index(kept)]
        near = row["jaccard"] == 0.9
        assert near or row["jaccard"] == 1
        assert near or same or IDS[equal[IDS.index(own)]][0] == kept[0]
        expected = {
            EVALUATION: (How.CONTAMINATED_NEAR, How.CONTAMINATED_NEAR),
            EARLIER: (How.EARLIER, How.EARLIER_NEAR),
            OWN: (How.EXACT, How.NEAR),
        }[kept[0]]
        assert row["how"] == expected[near]
    assert standing.count(*How) == len(rows)
    assert standing.clusters() == len({kept for kept in dropped.values() if kept[0] != EVALUATION})


def test_what_has_no_documents_has_no_rows() -> None:
    nothing = np.zeros(0, np.int64)
    standing = Standing.through(Names([]), nothing, Near(nothing, np.zeros(0)))
    assert (list(standing.rows()), standing.count(*How), standing.clusters()) == ([], 0, 0)
