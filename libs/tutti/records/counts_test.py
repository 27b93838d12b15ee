"""Counts with their nouns."""

import pytest

from tutti.records.counts import counted


@pytest.mark.parametrize(("count", "words"), [(0, "0 pages"), (1, "1 page"), (2, "2 pages"), (1200, "1,200 pages")])
def test_only_one_is_singular(count: int, words: str) -> None:
    assert counted(count, "page") == words


def test_an_irregular_plural_is_given() -> None:
    assert counted(1, "index", "indexes") == "1 index"
    assert counted(3, "index", "indexes") == "3 indexes"
