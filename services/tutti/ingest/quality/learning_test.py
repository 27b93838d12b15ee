"""Learning: classifiers whose bytes follow from their texts, their scores, and what cannot be learnt."""

import math
from itertools import product
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from tutti.corpus.quality import features
from tutti.corpus.quality.classifier import (
    DIGITS,
    MAGIC,
    UnreadableClassifier,
    decode,
    exponential,
    header,
    told,
)
from tutti.ingest.quality.learning import Example, Lesson, Unlearnable, learn, split
from tutti.records.canonical import bytes_digest

SYLLABLES = {
    "good": ("ba", "lo", "mi", "su", "ne"),
    "shop": ("ka", "te", "ri", "vo", "pu"),
    "code": ("zo", "ge", "xi", "fa", "hu"),
}
WORDS = {label: ["".join(word) for word in product(parts, repeat=3)] for label, parts in SYLLABLES.items()}


def examples(count: int = 40, labels: tuple[str, ...] = ("good", "shop", "code")) -> list[Example]:
    source = Random(5)
    common = ["the", "a", "of", "and", "with", "for", "this", "that"]
    return [
        Example(" ".join(source.choices(WORDS[label] + common, k=24)), label) for label in labels for _ in range(count)
    ]


@pytest.fixture(scope="module")
def lesson() -> Lesson:
    return learn(examples(), "good", 0.02)


def test_what_is_plain_is_learnt(lesson: Lesson) -> None:
    classifier = lesson.classifier
    assert [label.name for label in classifier.labels] == ["code", "shop"]
    texts = pa.array([" ".join(WORDS[label][7:99:9]) for label in ("shop", "code", "good")])
    scores = classifier.scores(texts)
    assert told(scores, [label.threshold for label in classifier.labels]).tolist() == [2, 1, 0]
    assert (scores[:, 0] * scores[:, 1]).tolist() == [0, 0, 0]
    right = sum(dict(row.told).get(row.label, 0) for row in lesson.held)
    assert right >= 0.9 * sum(row.texts for row in lesson.held)


def test_a_classifier_of_windows_finds_in_long_texts_what_one_of_whole_texts_does_not(lesson: Lesson) -> None:
    windows = learn(examples(), "good", 0.02, window=192).classifier
    assert decode(windows.encode()).window == windows.window == 192
    source, good = Random(8), WORDS["good"]
    long = [" ".join(f"{' '.join(source.choices(good, k=12))}." for _ in range(40)) for _ in range(4)]
    shop = " ".join(WORDS["shop"][7:99:4])
    texts = pa.array([*long, *(f"{text} {shop}. {text}" for text in long)])
    found = told(windows.scores(texts), [label.threshold for label in windows.labels])
    assert found.tolist() == [0] * 4 + [2] * 4
    whole = told(lesson.classifier.scores(texts), [label.threshold for label in lesson.classifier.labels])
    assert whole.tolist() == [0] * 8
    assert windows.scores(texts[:0]).shape == (0, 2)
    alone = windows.scores(pa.array(["", shop])) == windows.scores_of_whole(pa.array(["", shop]))
    assert alone.all()


def test_the_same_texts_give_the_same_bytes_in_whatever_order(lesson: Lesson) -> None:
    again = learn(examples()[::-1], "good", 0.02)
    assert again.classifier.encode() == lesson.classifier.encode()
    other = learn(examples(41), "good", 0.02)
    assert other.classifier.encode() != lesson.classifier.encode()


def test_nothing_that_is_held_out_was_learnt_from(lesson: Lesson) -> None:
    held = {each.text for each in lesson.held_out}
    assert len(held) == sum(each.held_out for each in lesson.learnt)
    assert len(held) + sum(each.trained for each in lesson.learnt) == 120


def test_what_is_held_out_has_no_say_in_weights_or_thresholds(lesson: Lesson) -> None:
    gone = {each.text for each in lesson.held_out if each.label != "good"}
    kept = {min(each.text for each in lesson.held_out if each.label == label) for label in ("shop", "code")}
    other = learn([each for each in examples() if each.text not in gone - kept], "good", 0.02).classifier
    assert len(gone - kept) > 10
    assert np.array_equal(other.weights, lesson.classifier.weights)
    assert (other.labels, other.biases) == (lesson.classifier.labels, lesson.classifier.biases)


def test_texts_that_are_nearly_the_same_stay_together() -> None:
    texts = [each.text for each in examples(30)]
    near = [f"{text} again" for text in texts]
    shares = split(texts + near, [features.features(text, 18) for text in texts + near])
    assert np.array_equal(shares[:90], shares[90:])
    assert len(set(shares.tolist())) > 80


def test_bytes_are_read_back_and_named_by_their_digest(lesson: Lesson) -> None:
    data = lesson.classifier.encode()
    read = decode(data, bytes_digest(data))
    text = pa.array([" ".join(WORDS["shop"][:9]), ""])
    assert read.encode() == data
    assert np.array_equal(read.scores(text), lesson.classifier.scores(text))
    assert header(data[:4096]).labels == lesson.classifier.labels


def test_what_is_no_classifier_is_refused(lesson: Lesson) -> None:
    data = lesson.classifier.encode()
    for broken, why in (
        (b"PAR1", "no classifier"),
        (MAGIC + b"{", "cut"),
        (data[:-1], "bytes of weights"),
        (data.replace(b'"features":1', b'"features":9'), "version 9"),
    ):
        with pytest.raises(UnreadableClassifier, match=why):
            decode(broken)
    with pytest.raises(UnreadableClassifier, match="damaged"):
        decode(data, bytes_digest(b""))


def test_what_cannot_be_learnt_says_why() -> None:
    every = examples()
    alike = [Example(f"{' '.join(WORDS['code'])} {at * 'x'}", "code") for at in range(30)]
    for given, why in (
        ([], r"\(none\)"),
        ([each for each in every if each.label == "good"], "from 1 to"),
        ([each for each in every if each.label != "good"], "the one that is kept"),
        ([*every, Example("one", "few")], "1 texts of the label 'few'"),
        ([*every, Example(every[0].text, "shop")], "one text has the labels"),
        ([*(each for each in every if each.label != "code"), *alike], "nearly the same stay together"),
    ):
        with pytest.raises(Unlearnable, match=why):
            learn(given, "good", 0.02)


def test_powers_are_those_of_the_library_to_the_last_digits() -> None:
    values = np.linspace(-30, 30, 1001)
    expected = [math.exp(value) for value in values.tolist()]
    assert np.allclose(exponential(values), expected, rtol=1e-14, atol=0)
    assert np.isfinite(exponential(np.array([-1e9, 1e9]))).all()
    assert round(float(exponential(np.array([0.0]))[0]), DIGITS) == 1
