"""Labels of preference datasets: each layout becomes the same pair, and what is no label has a named reason."""

from typing import Any

import pytest

from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.labels import Labelled, labelled, unread_of
from tutti.corpus.conversations.unfit import Reason, Unfit

ASKED = {"role": "user", "content": "Why?"}
PROMPT = (Message(Role.USER, "Why?"),)


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    "record",
    [
        {"prompt": "Why?", "answers": ["So.", "No."], "score": -1},
        {"prompt": [ASKED], "answers": ["So.", "No."], "scores": {"helpful": -1}},
        {"prompt": "Why?", "chosen": "So.", "rejected": "No."},
        {"prompt": [ASKED], "chosen": [said("So.")], "rejected": [said("No.")]},
        {"prompt": "Why?", "chosen": [ASKED, said("So.")], "rejected": [ASKED, said("No.")], "margin": 8.0},
        {"chosen": [ASKED, said("So.")], "rejected": [ASKED, said("No.")]},
        {"chosen": "\n\nHuman: Why?\n\nAssistant: So.", "rejected": "\n\nHuman: Why?\n\nAssistant: No."},
    ],
)
def test_each_layout_becomes_the_same_label(record: dict[str, Any]) -> None:
    assert labelled(record, ["helpful"]) == Labelled(PROMPT, ("So.", "No."), {"helpful": -1}, "imported")
    assert labelled(record | {"annotator": "ada-1"}, ["helpful"]).annotator == "ada-1"


def test_one_score_says_nothing_of_two_axes() -> None:
    with pytest.raises(Unfit, match="expected scores of helpful, true"):
        labelled({"prompt": "Why?", "chosen": "So.", "rejected": "No."}, ["helpful", "true"])


def test_an_earlier_answer_is_part_of_the_prompt() -> None:
    before = "\n\nHuman: Hi.\n\nAssistant: Hello.\n\nHuman: Why?\n\nAssistant:"
    found = labelled({"chosen": f"{before} So.", "rejected": f"{before} No."}, ["helpful"])
    assert [each.content for each in found.prompt] == ["Hi.", "Hello.", "Why?"]
    assert found.answers == ("So.", "No.")


@pytest.mark.parametrize("score", [-2, 0, 2, "both_bad"])
def test_scores_are_those_of_annotators(score: int | str) -> None:
    record = {"prompt": "Why?", "answers": ["", "No."], "scores": {"helpful": score, "true": 0}}
    assert labelled(record, ["true", "helpful"]).scores == {"helpful": score, "true": 0}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"text": "So."}, Reason.UNKNOWN_LAYOUT),
        ({}, Reason.UNKNOWN_LAYOUT),
        ({"prompt": "Why?", "answers": ["So."], "score": 1}, Reason.NOT_A_STRING),
        ({"prompt": "Why?", "answers": ["So.", 3], "score": 1}, Reason.NOT_A_STRING),
        ({"prompt": " ", "answers": ["So.", "No."], "score": 1}, Reason.EMPTY_MESSAGE),
        ({"prompt": "Why?", "answers": ["So.", "No."]}, Reason.UNKNOWN_SCORE),
        ({"prompt": "Why?", "answers": ["So.", "No."], "score": 3}, Reason.UNKNOWN_SCORE),
        ({"prompt": "Why?", "answers": ["So.", "No."], "score": True}, Reason.UNKNOWN_SCORE),
        ({"prompt": "Why?", "answers": ["So.", "No."], "score": 1.5}, Reason.UNKNOWN_SCORE),
        ({"prompt": "Why?", "answers": ["So.", "No."], "scores": {"other": 1}}, Reason.UNKNOWN_SCORE),
        ({"prompt": "Why?", "answers": ["So.", "No."], "score": 1, "annotator": "a b"}, Reason.NOT_A_STRING),
        ({"prompt": "Why?", "answers": ["So\ud800", "No."], "score": 1}, Reason.LONE_SURROGATE),
        ({"chosen": "So.", "rejected": "No."}, Reason.NOT_A_TRANSCRIPT),
        ({"chosen": [ASKED], "rejected": [ASKED]}, Reason.NO_ANSWER),
        ({"chosen": [said("So.")], "rejected": [said("No.")]}, Reason.NO_ANSWER),
        ({"chosen": [ASKED, said("So.")], "rejected": [ASKED, ASKED, said("No.")]}, Reason.OTHER_PROMPT),
    ],
)
def test_what_is_no_label_is_unfit(record: dict[str, Any], reason: Reason) -> None:
    with pytest.raises(Unfit) as caught:
        labelled(record, ["helpful"])
    assert caught.value.reason is reason


def test_a_field_that_is_null_is_none() -> None:
    record = {"prompt": "Why?", "answers": ["So.", "No."], "score": -1}
    absent = dict.fromkeys(("annotator", "scores", "chosen", "rejected", "score_chosen", "system", "label", "tie"))
    assert labelled(record | absent, ["helpful"]) == labelled(record, ["helpful"])


def test_inverted_scores_are_refused_however_large_they_are() -> None:
    record = {"prompt": "Why?", "chosen": "So.", "rejected": "No.", "score_chosen": 1, "score_rejected": 10**400}
    with pytest.raises(Unfit) as refused:
        labelled(record, ["helpful"])
    assert refused.value.reason is Reason.INVERTED_SCORES
    assert labelled(record | {"score_chosen": 10**401}, ["helpful"]).scores == {"helpful": -1}


def test_names_of_fields_that_cannot_be_shown_are_escaped_and_long_ones_cut() -> None:
    odd = {"\ud800": 1, "\x1b[2J": 1, "": 1, "x" * 10_000: 1, "größe": 1}
    listed = unread_of({"prompt": "Why?", "chosen": "So.", "rejected": "No.", **odd})
    with pytest.raises(Unfit) as refused:
        labelled(odd, ["helpful"])
    for text in (*listed, refused.value.detail):
        assert text.isprintable()
        assert text.encode()
        assert len(text) < 500
    assert "größe" in listed
    assert len(listed) == 5
