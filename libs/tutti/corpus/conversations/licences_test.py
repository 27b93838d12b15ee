"""Licences of conversations: read from records, compared without regard to case, refused with the names expected."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.conversations.licences import (
    EXPECTED,
    MOST_CHARACTERS,
    MOST_COUNTED,
    OTHERS,
    UNKNOWN,
    Licences,
    bounded,
    is_name,
    name_of,
    preferred,
)
from tutti.corpus.conversations.unfit import Reason

NAMES = st.text(max_size=120)
VALUES = st.none() | NAMES | st.integers() | st.lists(NAMES, max_size=2)


@pytest.mark.parametrize(
    ("record", "licence"),
    [
        ({"license": " CC-BY-4.0 "}, "cc-by-4.0"),
        ({"licence": "MIT"}, "mit"),
        ({"license": "MIT", "licence": "mit"}, "mit"),
        ({"license": "MIT", "licence": "GPL"}, UNKNOWN),
        ({"license": ["MIT"]}, UNKNOWN),
        ({"license": "x" * (MOST_CHARACTERS + 1)}, UNKNOWN),
        ({"license": "half \ud800"}, UNKNOWN),
        ({"license": "two\nlines"}, UNKNOWN),
        ({"license": ""}, "apache-2.0"),
        ({"license": None}, "apache-2.0"),
        ({}, "apache-2.0"),
    ],
)
def test_the_licence_of_a_record_is_that_of_its_field_or_the_missing_one(
    record: dict[str, object], licence: str
) -> None:
    assert Licences(missing="apache-2.0").of(record) == licence


@given(st.dictionaries(st.sampled_from(["license", "licence", "prompt"]), VALUES))
def test_the_licence_of_any_record_can_be_recorded(record: dict[str, object]) -> None:
    found = Licences().of(record)
    assert is_name(found)
    assert found == name_of(found)
    assert found.encode()


@given(st.text(), st.frozensets(st.sampled_from(["mit", "cc0-1.0", UNKNOWN])))
def test_a_licence_is_refused_unless_it_is_allowed_or_all_are(text: str, allowed: frozenset[str]) -> None:
    licences = Licences(allowed=allowed)
    for licence in ("mit", "gpl-3.0", UNKNOWN, licences.of({"license": text})):
        refusal = licences.refusal(licence)
        assert (refusal is None) == (not allowed or licence in allowed)
        if refusal is not None:
            assert refusal.reason is (Reason.NO_LICENCE if licence == UNKNOWN else Reason.OTHER_LICENCE)
            assert all(name in refusal.detail for name in allowed)


@given(st.lists(st.sampled_from(["mit", "gpl-3.0", "cc0-1.0", UNKNOWN]), min_size=1))
def test_the_licence_of_a_conversation_that_came_often_depends_on_no_order(names: list[str]) -> None:
    def last(every: list[str]) -> str:
        found = every[0]
        for each in every:
            found = preferred(found, each)
        return found

    assert last(names) == last(sorted(names)) == last(sorted(names, reverse=True))
    assert (last(names) == UNKNOWN) == (set(names) == {UNKNOWN})


@given(st.dictionaries(st.integers(0, 300).map(str), st.integers(1, 9), max_size=300))
def test_only_the_most_frequent_licences_are_counted_by_name_and_no_conversation_is_lost(
    counts: dict[str, int],
) -> None:
    found = bounded(counts)
    assert sum(found.values()) == sum(counts.values())
    assert len(found) == min(len(counts), MOST_COUNTED + 1)
    assert (OTHERS in found) == (len(counts) > MOST_COUNTED)
    assert Counter(found) - Counter({OTHERS: found.get(OTHERS, 0)}) <= Counter(counts)


def test_what_names_no_licence_is_known() -> None:
    assert [is_name(each) for each in ("MIT", "  ", "", "a\0b", "x" * 101)] == [True, False, False, False, False]
    assert "cc-by-4.0" in EXPECTED
