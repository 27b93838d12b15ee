"""Canonical JSON is that of RFC 8785, however it is written."""

import enum

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from tutti.records.canonical import canonical_json, parse_json
from tutti.records.errors import NotCanonical

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


class Word(enum.StrEnum):
    SAID = "said"


class Number(enum.IntEnum):
    SEVEN = 7


@given(VALUES)
@example({"\U0001f600": 1, "\ufb33": 2, "a": '\x00\x1f\x7f\u2028"\\/'})
@example({"\u0120a": 1, "a": 2, "\ud7ff": 3, "\ue000": {"\U0001f600": 4}, "": 5})
@example({"\u0120a": 1, "a": 2, "\ud7ff": 3})
@example([Word.SAID, Number.SEVEN, {Word.SAID: (1, 2)}])
@example({"a": 1e21, "b": -0.0, "c": [True, None]})
def test_it_is_what_the_library_writes_and_comes_back(value: object) -> None:
    written = canonical_json(value)
    assert written == rfc8785.dumps(value)  # type: ignore[arg-type]
    assert canonical_json(parse_json(written)) == written


@pytest.mark.parametrize(
    "value", [2**53, [-(2**53)], {"a": {1: 2}}, "\ud800", {"\ud800": 1}, float("nan"), {1, 2}, b""]
)
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical, match="expected null, bool"):
        canonical_json(value)
