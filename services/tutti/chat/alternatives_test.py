"""The tokens of answers that are shown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import talks

from tutti.chassis.errors import InvalidField
from tutti.chat.alternatives import check_place, continued, named, tokens_of
from tutti.chat.filter.release import Filter, of_rules
from tutti.chat.filter.rules import Rule
from tutti.chat.generations import Generation
from tutti.chat.requests import as_body, read, read_body
from tutti.chat.saying import FILTERED
from tutti.chat.saying_test import FILTERS, IDS, SPELLED, said, served_with

PAIR = of_rules([Rule("pair", "ab", inside=True)])
BODY: dict[str, Any] = {"model": "toy", "messages": [{"role": "user", "content": "d"}]}


@given(ids=IDS, stops=st.lists(st.sampled_from(["a", "bc", "é"]), max_size=2), chosen=FILTERS)
def test_the_tokens_are_those_that_are_wholly_shown(ids: list[int], stops: list[str], chosen: Filter) -> None:
    request, served = read({**BODY, "stop": stops}), served_with(chosen)
    pieces, record = said(served, request, ids)
    tokens = tokens_of(served, Generation(request, record.ids), pieces[-1].finished)
    shown = record.text if record.cut is None else record.text[: record.cut]
    assert shown.startswith("".join(each.text for each in tokens))
    assert [each.id for each in tokens] == record.ids[: len(tokens)]
    assert all(each.text or each.name for each in tokens)
    following = record.ids[len(tokens)] if len(tokens) < len(record.ids) else None
    assert following is None or record.cut is not None or stops or not SPELLED[following].isascii()


@given(ids=IDS, at=st.integers(-2, 14), token=st.integers(-2, len(SPELLED) + 1), chosen=FILTERS)
def test_an_answer_is_continued_from_a_token_that_is_shown(ids: list[int], at: int, token: int, chosen: Filter) -> None:
    request, served = read(BODY), served_with(chosen)
    pieces, record = said(served, request, ids)
    generation, finished = Generation(request, record.ids), pieces[-1].finished
    may = 0 <= at < len(tokens_of(served, generation, finished)) and 0 <= token < served.tokenizer.vocabulary
    if not may or token in served.renderer.never:
        with pytest.raises(InvalidField):
            continued(served, generation, finished, at, token)
        return
    found = continued(served, generation, finished, at, token)
    assert found.given == (*record.ids[:at], token)
    assert read_body(as_body(found)) == found


@given(before=IDS, after=IDS, at=st.integers(0, 30), token=st.sampled_from(range(len(SPELLED))))
def test_an_answer_that_the_filter_cut_has_no_tokens_and_is_not_continued(
    before: list[int], after: list[int], at: int, token: int
) -> None:
    served, request = served_with(PAIR), read(BODY)
    begun = [each for each in before if each != talks.TOKENIZER.eos]
    pieces, record = said(served, request, [*begun, *talks.TOKENIZER.encode("ab"), *after])
    finished, generation = pieces[-1].finished, Generation(request, record.ids)
    assert finished == FILTERED
    assert tokens_of(served, generation, finished) == []
    for refused in (
        lambda: check_place(served, generation, finished, at),
        lambda: continued(served, generation, finished, at, token),
    ):
        with pytest.raises(InvalidField) as error:
            refused()
        assert error.value.field == "at"


def test_every_token_has_a_face() -> None:
    served = served_with(FILTERS.elements[0])  # type: ignore[attr-defined]
    for token in range(talks.TOKENIZER.vocabulary):
        found = named(served, token)
        assert found.text or found.name
    assert named(served, served.renderer.end).name == "the end"
