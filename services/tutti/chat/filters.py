"""Filters as deployments define them, and their classifiers, which ingest has trained."""

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import InvalidField
from tutti.chat.filter.release import NONE, Filter, Windows, of_rules
from tutti.chat.filter.rules import Judges, Rule, check
from tutti.contracts.chat.v1 import (
    FILTER_SIDE_ANSWER,
    FILTER_SIDE_PROMPT,
    FILTER_SIDE_UNSPECIFIED,
    FilterSide,
    FilterSpec,
)
from tutti.corpus.quality.classifier import Classifier, UnreadableClassifier, decode, key_of, told
from tutti.native.arrays import pa
from tutti.records.canonical import is_digest

FIELD = "spec.filter"
SHORT = 12
"""Characters of the digest of a classifier that a decision has as its version."""
SIDES: dict["FilterSide.ValueType", Judges] = {
    FILTER_SIDE_UNSPECIFIED: Judges.BOTH,
    FILTER_SIDE_PROMPT: Judges.PROMPT,
    FILTER_SIDE_ANSWER: Judges.ANSWER,
}


def filter_of(spec: FilterSpec, blobs: Blobs) -> Filter:
    """The filter of a deployment; its classifier is read from the blobs of ingest. Raises InvalidField."""
    for number, each in enumerate(spec.rules):
        _known(each.side, f"{FIELD}.rules[{number}].side")
    rules = [Rule(each.name, each.pattern, SIDES[each.side], each.inside, each.version) for each in spec.rules]
    check(rules, f"{FIELD}.rules")
    _known(spec.side, f"{FIELD}.side")
    if not spec.classifier:
        return of_rules(rules) if rules else NONE
    return of_rules(rules, windows_of(spec.classifier, blobs), spec.classifier, SIDES[spec.side])


def windows_of(reference: str, blobs: Blobs) -> Windows:
    """The classifier NAME@DIGEST, for windows. Raises InvalidField where it is not there, or judges whole texts."""
    name, _, digest = reference.partition("@")
    field, trained = f"{FIELD}.classifier", "tutti classifiers train recipes/harm-windows.yaml"
    if not name or not is_digest(digest):
        raise InvalidField(field, seen=reference, expected="NAME@DIGEST, as `tutti classifiers show NAME` has it")
    try:
        classifier = decode(blobs.get(key_of(digest)), digest)
    except (BlobMissing, UnreadableClassifier) as error:
        expected = f"the model of a classifier that was trained here, as `{trained}` does ({error})"
        raise InvalidField(field, seen=reference, expected=expected) from error
    if not classifier.window:
        expected = f"a classifier that was trained with `window`, as `{trained}` does; this one judges whole texts"
        raise InvalidField(field, seen=reference, expected=expected)
    return Windows(name, digest.removeprefix("blake3:")[:SHORT], classifier.window, Scorer(classifier))


class Scorer:
    """Judges windows by a classifier and its thresholds."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier, self._thresholds = classifier, [each.threshold for each in classifier.labels]

    def __call__(self, window: str) -> str:
        """The label as which a window is refused, or nothing."""
        scores = self._classifier.scores_of_whole(pa.array([window], pa.large_string()))
        label = int(told(scores, self._thresholds)[0])
        return self._classifier.labels[label - 1].name if label else ""


def _known(side: "FilterSide.ValueType", field: str) -> None:
    if side not in SIDES:
        raise InvalidField(field, seen=side, expected="FILTER_SIDE_PROMPT, FILTER_SIDE_ANSWER, or none for both")
