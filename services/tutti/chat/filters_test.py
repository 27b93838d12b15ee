"""Filters as deployments define them: what cannot work is refused by its field."""

from pathlib import Path

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.errors import InvalidField
from tutti.chat.filter.release import NONE, judged
from tutti.chat.filters import filter_of
from tutti.contracts.chat.v1 import FILTER_SIDE_ANSWER, FilterRule, FilterSpec
from tutti.corpus.quality.classifier import Classifier, Label, key_of
from tutti.corpus.quality.features import of_word
from tutti.native.arrays import np
from tutti.records.canonical import bytes_digest

BITS = 10


def classifier(window: int) -> bytes:
    """A classifier that takes the word `zoo` for spam, and nothing else."""
    weights = np.zeros((1 << BITS, 1), np.int16)
    weights[of_word("zoo") >> (64 - BITS)] = 1000
    return Classifier("fine", (Label("spam", 0.9),), (-5.0,), 0.1, weights, window=window).encode()


@pytest.fixture
def blobs(tmp_path: Path) -> EmbeddedBlobs:
    return EmbeddedBlobs(tmp_path / "blobs")


def stored(blobs: EmbeddedBlobs, window: int) -> str:
    """Store a classifier; its name with its digest."""
    data = classifier(window)
    blobs.put_if_absent(key_of(bytes_digest(data)), data)
    return f"zoo@{bytes_digest(data)}"


def test_a_filter_has_rules_and_a_classifier_of_windows_for_their_sides(blobs: EmbeddedBlobs) -> None:
    rule = FilterRule(name="word", version=2, pattern="bad word", side=FILTER_SIDE_ANSWER)
    found = filter_of(FilterSpec(rules=[rule], classifier=stored(blobs, 32)), blobs)
    text = "It is fine. It is fine. We saw the zoo. It is fine, and fine again, and fine again."
    for side in (found.prompt, found.answer):
        [decision] = judged(side, text).decisions
        assert (decision.rule, text[decision.begin : decision.end]) == ("zoo.spam", "It is fine. We saw the zoo. ")
    assert not judged(found.prompt, "a bad word").decisions
    assert [each.version for each in judged(found.answer, "a bad word").decisions] == ["2"]


def test_an_empty_filter_is_none(blobs: EmbeddedBlobs) -> None:
    assert filter_of(FilterSpec(), blobs) is NONE
    assert NONE.digest == ""


def test_filters_have_equal_digests_only_if_they_are_the_same(blobs: EmbeddedBlobs) -> None:
    rule = FilterRule(name="word", version=1, pattern="bad word")
    one, same = (filter_of(FilterSpec(rules=[rule]), blobs).digest for _ in range(2))
    rule.inside = True
    assert one == same != filter_of(FilterSpec(rules=[rule]), blobs).digest


def test_what_cannot_work_is_refused_by_its_field(blobs: EmbeddedBlobs) -> None:
    absent = f"zoo@{bytes_digest(b'absent')}"
    for spec, field in (
        (FilterSpec(rules=[FilterRule(name="a", version=1, pattern="b")]), "spec.filter.rules[0].pattern"),
        (FilterSpec(rules=[FilterRule(name="a", pattern="bb")]), "spec.filter.rules[0].version"),
        (FilterSpec(classifier="zoo"), "spec.filter.classifier"),
        (FilterSpec(classifier=absent), "spec.filter.classifier"),
        (FilterSpec(classifier=stored(blobs, 0)), "spec.filter.classifier"),
    ):
        with pytest.raises(InvalidField) as refused:
            filter_of(spec, blobs)
        assert refused.value.field == field
