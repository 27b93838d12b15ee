"""Fields of datasets mean the same in every layout, at every spelling of their names."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.conversations.fields import Sense, chosen_first, is_trained, require, sense_of, stated
from tutti.corpus.conversations.layouts import conversation, layout_of
from tutti.corpus.conversations.unfit import Reason, Unfit

ASKED, SAID = {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}
RECORDS: list[dict[str, Any]] = [
    {"messages": [ASKED, SAID]},
    {"conversations": [ASKED, SAID]},
    {"instruction": "Why?", "output": "So."},
    {"prompt": "Why?", "completion": "So."},
    {"prompt": "Why?", "chosen": "So.", "rejected": "No."},
]
GOOD = ["label", "kto_tag", "weight", "train", "trainable", "training", "score", "rating", "reward", "average_rating"]
BAD_VALUES = [False, 0, -1, -0.5, "false", "0", "No", "bad", float("nan"), [1], {}]


def spelled(name: str) -> st.SearchStrategy[str]:
    """Other spellings of a name: in capitals, with hyphens or blanks, in camel case."""
    words = name.split("_")
    camel = words[0] + "".join(word.capitalize() for word in words[1:])
    return st.sampled_from([name, name.upper(), name.title(), name.replace("_", "-"), name.replace("_", " "), camel])


@given(st.sampled_from(RECORDS), st.sampled_from(GOOD).flatmap(spelled), st.sampled_from(BAD_VALUES))
def test_a_bad_answer_is_refused_by_name_in_every_layout(record: dict[str, Any], name: str, value: object) -> None:
    layout = layout_of(record)
    assert layout is not None
    for good in (True, 1, 2.5, "true", "1", None):
        assert conversation(layout, record | {name: good}) == conversation(layout, record)
    with pytest.raises(Unfit, match=name) as refused:
        conversation(layout, record | {name: value})
    assert refused.value.reason is Reason.UNREAD_FIELD


@given(st.sampled_from(RECORDS), st.sampled_from(["instruction", "input", "question", "context", "answer"]))
def test_a_text_that_no_message_has_is_refused_in_every_layout(record: dict[str, Any], name: str) -> None:
    layout = layout_of(record)
    assert layout is not None
    for value in ("Answer in French.", ["Answer in French."]):
        if name not in record and not (name == "input" and "instruction" in record):
            with pytest.raises(Unfit, match=name) as refused:
                conversation(layout, {**record, name: value})
            assert refused.value.reason is Reason.UNREAD_FIELD
            assert conversation(layout, {**record, name: "Why?"}) == conversation(layout, record)


@pytest.mark.parametrize(
    ("message", "trained"),
    [
        ({}, True),
        ({"train": True, "mask": False}, True),
        ({"weight": "0"}, False),
        ({"Training": False}, False),
        ({"mask": True, "train": True}, False),
    ],
)
def test_a_message_is_trained_unless_a_flag_says_otherwise(message: dict[str, object], trained: bool) -> None:
    assert is_trained(message) is trained


@pytest.mark.parametrize("value", [0.5, -1, "half", [0, 1]])
def test_a_flag_of_a_message_that_is_neither_true_nor_false_is_refused(value: object) -> None:
    with pytest.raises(Unfit, match="expected 0 or 1"):
        is_trained({"loss": value})


MEASURES = [
    ("chosen_score", "rejected_score"),
    ("score_chosen", "score_rejected"),
    ("chosen-rating", "rejected-rating"),
    ("chosenReward", "rejectedReward"),
    ("reward_chosen", "reward_rejected"),
    ("chosen_overall_score", "rejected_overall_score"),
    ("chosen_avg_rating", "rejected_avg_rating"),
]


@given(st.sampled_from(MEASURES), st.floats(-9, 9), st.floats(-9, 9))
def test_scores_of_both_answers_are_compared(names: tuple[str, str], chosen: float, rejected: float) -> None:
    first, second = {"content": "So.", "score": chosen}, [{"content": "No.", "score": rejected}]
    for record in (
        dict(zip(names, (chosen, rejected), strict=True)),
        {"margin": chosen - rejected},
        {"chosen": first, "rejected": second},
    ):
        if chosen < rejected:
            with pytest.raises(Unfit) as refused:
                chosen_first(record)
            assert refused.value.reason is Reason.INVERTED_SCORES
        else:
            assert chosen_first(record) is (chosen > rejected)
        assert chosen < rejected or not chosen_first(record | {"tie": True})


@given(st.sampled_from(MEASURES), st.sampled_from([None, "5", [5]]))
def test_a_score_without_one_to_compare_it_with_is_refused(names: tuple[str, str], other: object) -> None:
    with pytest.raises(Unfit) as refused:
        chosen_first({names[0]: 5, names[1]: other})
    assert refused.value.reason is Reason.UNKNOWN_SCORE


def test_one_measure_that_contradicts_the_others_is_found() -> None:
    assert chosen_first({"chosen_score": 1, "rejected_score": 1, "chosen_reward": 2, "rejected_reward": 1})
    with pytest.raises(Unfit):
        chosen_first({"chosen_score": 5, "rejected_score": 1, "margin": -1})


@given(st.text(max_size=80))
def test_any_name_has_a_sense_or_none(name: str) -> None:
    assert sense_of(name) is None or len(name) <= 60


def test_names_beside_those_of_the_table_have_no_sense() -> None:
    for name in ("quality_score", "toxicity_rating", "label_names", "labels", "chosen_by", "chosen_model", "id", ""):
        assert sense_of(name) is None
    assert sense_of("reward_margin") is Sense.MARGIN


def test_numbers_that_are_huge_or_none_are_judged() -> None:
    assert stated(10**400) is True
    assert stated(" TRUE ") is True
    assert stated("nan") is None
    require({"label": None, "tools": []}, tuple(Sense))
