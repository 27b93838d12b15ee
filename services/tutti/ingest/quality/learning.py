"""Learning: labelled texts become a classifier, and what it is worth on texts that it never saw.

Logistic regression over features.py, by AdaGrad (Duchi et al. 2011) in a fixed order, with a share of the weights taken
off at each step: once of what is kept against all the rest, once of the other labels among themselves. Promises: the
same texts give the same bytes, in whatever order they come and on whatever machine: additions are in one order, nothing
is computed that IEEE 754 leaves open. Texts that are nearly the same are never on both sides of a split.

The lines of a text are learnt beside it, as if they were texts: what is a page there may be a line elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias

from tutti.corpus.quality.classifier import DIGITS, MOST_LABELS, Classifier, Label, exponential, placed, told
from tutti.corpus.quality.features import features
from tutti.corpus.quality.windows import windows
from tutti.ingest.quality.languages import identify
from tutti.native.arrays import np, npt, pa
from tutti.records.canonical import JsonValue, keyed_bytes
from tutti.records.errors import CorpusError

Features: TypeAlias = "npt.NDArray[np.uint32]"
Reals: TypeAlias = "npt.NDArray[np.float64]"
BANDS, ROWS = 16, 4

LEARNING_VERSION = 2
HELD_OUT = 0.3
FOLDS = 5
LEAST_THRESHOLD = 0.5
LEAST_TEXTS = 20
"""Minimum number of texts per label, so that every part of a split has some."""
MOST_TEXTS, MOST_CHARACTERS, MOST_FEATURES = 100_000, 20_000, 50_000_000
"""Texts; characters of each that are read; features of all. What is held in memory follows from these."""

MOST_LINES, LEAST_WORDS = 4, 5
"""Number of lines of each text that are learnt separately, of so many words or more, the first ones."""

ANSWER = 1000
"""Characters of the answers for which thresholds of windows are chosen."""

BITS, BATCH, RATE, DECAY = 18, 32, 0.5, 1e-4
EPOCHS, LEAST_EPOCHS, VISITS = 30, 3, 500_000
LANGUAGES = 5
"""So many languages of held-out texts are told apart, the most frequent ones."""


class Unlearnable(CorpusError):
    """These texts cannot become a classifier; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Example:
    text: str
    label: str


@dataclass(frozen=True, slots=True)
class Learnt:
    """The number of training and held-out texts of a label; its threshold, 0 for the label that is kept."""

    label: str
    trained: int
    held_out: int
    threshold: float


@dataclass(frozen=True, slots=True)
class HeldOutCounts:
    """Predictions for held-out texts of a label and a language: labels with their counts, none of them 0."""

    label: str
    language: str
    texts: int
    told: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Lesson:
    """A classifier, and how it did."""

    classifier: Classifier
    learnt: tuple[Learnt, ...]
    held: tuple[HeldOutCounts, ...]
    held_out: tuple[Example, ...]


def learn(examples: Sequence[Example], keeps: str, most_false: float, source: str = "", *, window: int = 0) -> Lesson:
    """A classifier of the labels of these texts but `keeps`. Raises Unlearnable.

    The threshold of a label is chosen on the part that is learnt from, by scores of each text from weights that were
    learnt without it (one fold of FOLDS at a time): of the kept texts, and of those that look like this label most, at
    most a share of `most_false` reaches it. With a `window` in characters, the classifier judges windows of texts: all
    labels have one threshold, which at most a share of `most_false` of answers of ANSWER characters reaches, each made
    of kept texts in a row.
    """
    names = [keeps, *sorted({each.label for each in examples} - {keeps})]
    examples = _checked(examples, names)
    found = [features(each.text[:MOST_CHARACTERS], BITS) for each in examples]
    parts = [_lines(each.text[:MOST_CHARACTERS]) for each in examples]
    if (size := sum(map(len, found)) + sum(len(line) for lines in parts for line in lines)) > MOST_FEATURES:
        raise Unlearnable(
            f"the texts have {size} features together; expected at most {MOST_FEATURES}: give fewer texts"
        )
    labels = np.array([names.index(each.label) for each in examples], np.int64)
    shares = split([each.text for each in examples], found)
    seen, held = np.flatnonzero(shares >= HELD_OUT), np.flatnonzero(shares < HELD_OUT)
    for number, name in enumerate(names):
        counts = [int((labels[side] == number).sum()) for side in (seen, held)]
        if counts[0] < FOLDS or not counts[1]:
            raise Unlearnable(
                f"of the label {name!r} {counts[0]} texts would be learnt from and {counts[1]} held out, since texts "
                f"that are nearly the same stay together; give more that differ, at least {LEAST_TEXTS} of each label"
            )
    material = _Material(found, parts, labels)
    texts = [each.text for each in examples]
    thresholds = _thresholds(material, seen, shares, len(names) - 1, most_false, texts, window)
    weights = fit_both(*material.at(seen), len(names) - 1)
    scale = max(float(np.abs(weights.of).max()), 1e-9) / 32767
    learnt = tuple(
        Learnt(
            name,
            int((labels[seen] == number).sum()),
            int((labels[held] == number).sum()),
            0.0 if not number else thresholds[number - 1],
        )
        for number, name in enumerate(names)
    )
    made = Classifier(
        keeps,
        tuple(Label(name, threshold) for name, threshold in zip(names[1:], thresholds, strict=True)),
        tuple(weights.bias.tolist()),
        scale,
        np.rint(weights.of / scale).astype(np.int16),
        window=window,
    )
    rest = [examples[each] for each in held]
    table = confusion(made, rest)
    classifier = replace(made, made_of=_account(learnt, table, source, most_false))
    return Lesson(classifier, learnt, table, tuple(rest))


@dataclass(frozen=True, slots=True)
class _Material:
    """Features of texts, and of the lines of each that are learnt beside it; int64 [texts], the label of each."""

    texts: Sequence[Features]
    lines: Sequence[Sequence[Features]]
    labels: npt.NDArray[np.int64]

    def at(self, places: npt.NDArray[np.int64]) -> tuple[list[Features], npt.NDArray[np.int64]]:
        """The features of the texts at these places, then those of their lines; and the label of each."""
        chosen = places.tolist()
        lines = [(line, at) for at in chosen for line in self.lines[at]]
        of = np.array([*chosen, *(at for _, at in lines)], np.int64)
        return [*(self.texts[at] for at in chosen), *(line for line, _ in lines)], self.labels[of]


def _lines(text: str) -> list[Features]:
    lines = [line for line in text.splitlines() if len(line.split()) >= LEAST_WORDS][:MOST_LINES]
    return [features(line, BITS) for line in lines] if "\n" in text.strip() else []


def _checked(examples: Sequence[Example], names: Sequence[str]) -> list[Example]:
    """Each text once, in an order of their own. Raises Unlearnable."""
    counts = Counter(each.label for each in examples)
    if not 2 <= len(names) <= MOST_LABELS + 1 or not counts[names[0]]:
        raise Unlearnable(
            f"labels {', '.join(sorted(counts)) or '(none)'}; expected {names[0]!r}, the one that is kept, and from "
            f"1 to {MOST_LABELS} others"
        )
    if few := [name for name in names if counts[name] < LEAST_TEXTS]:
        raise Unlearnable(
            f"{counts[few[0]]} texts of the label {few[0]!r}; expected at least {LEAST_TEXTS} of each label"
        )
    if len(examples) > MOST_TEXTS:
        raise Unlearnable(f"{len(examples)} texts; expected at most {MOST_TEXTS}: give a sample of them")
    once: dict[str, str] = {}
    for each in examples:
        if once.setdefault(each.text, each.label) != each.label:
            raise Unlearnable(
                f"one text has the labels {once[each.text]!r} and {each.label!r}: {each.text[:60]!r}; keep one of them"
            )
    ordered = sorted(once.items(), key=lambda pair: keyed_bytes("example", pair[0].encode()))
    return [Example(text, label) for text, label in ordered]


def _account(
    learnt: Sequence[Learnt], table: Sequence[HeldOutCounts], source: str, most_false: float
) -> Mapping[str, JsonValue]:
    held: list[JsonValue] = [{**asdict(each), "told": dict(each.told)} for each in table]
    return {
        "held_out": held,
        "learning": LEARNING_VERSION,
        "most_false": most_false,
        "source": source,
        "texts": [asdict(each) for each in learnt],
    }


def confusion(classifier: Classifier, examples: Sequence[Example]) -> tuple[HeldOutCounts, ...]:
    """The predictions for texts, by label and language."""
    scores = classifier.scores(pa.array([each.text for each in examples], pa.large_string()))
    answers = told(scores, [label.threshold for label in classifier.labels])
    names = [classifier.keeps, *(label.name for label in classifier.labels)]
    spoken = [identify(each.text).macro for each in examples]
    ordered = sorted(Counter(spoken).items(), key=lambda pair: (-pair[1], pair[0]))
    frequent = {language for language, _ in ordered[:LANGUAGES]}
    rows: dict[tuple[str, str], Counter[str]] = {}
    for each, language, answer in zip(examples, spoken, answers.tolist(), strict=True):
        key = (each.label, language if language in frequent else "other")
        rows.setdefault(key, Counter())[names[answer]] += 1
    return tuple(
        HeldOutCounts(*key, counts.total(), tuple(sorted(counts.items()))) for key, counts in sorted(rows.items())
    )


def _thresholds(
    material: _Material,
    learnt: npt.NDArray[np.int64],
    shares: Reals,
    count: int,
    most_false: float,
    texts: Sequence[str],
    window: int,
) -> list[float]:
    folds = (shares[learnt] * 1e6).astype(np.int64) % FOLDS
    logits, of_answers = np.zeros((len(learnt), count)), [np.zeros(0)]
    for fold in range(FOLDS):
        rest = np.flatnonzero(folds == fold)
        if len(rest):
            weights = fit_both(*material.at(learnt[folds != fold]), count)
            if window:
                kept = [texts[at] for at in learnt[rest].tolist() if material.labels[at] == 0]
                of_answers.append(_greatest(weights, answers(kept), window))
            else:
                logits[rest] = weights.logits([material.texts[at] for at in learnt[rest].tolist()])
    unit = 10.0**-DIGITS

    def least(kept: Reals) -> float:
        """The score that at most a share of `most_false` of these reaches."""
        ordered, allowed = np.sort(kept)[::-1], int(most_false * len(kept))
        return float(ordered[allowed]) + unit if len(ordered) > allowed else 0.0

    if window:
        return [round(min(1.0, max(LEAST_THRESHOLD, least(np.concatenate(of_answers)))), DIGITS)] * count
    scores = placed(logits)
    kept = scores[material.labels[learnt] == 0]
    of_all = max(LEAST_THRESHOLD, least(kept.max(axis=1)))
    return [round(min(1.0, max(of_all, least(kept[kept[:, column] > 0, column]))), DIGITS) for column in range(count)]


def answers(texts: Sequence[str]) -> list[str]:
    """For each text, an answer that begins with it and continues with those after it, of ANSWER characters or more."""
    found = []
    for first in range(len(texts)):
        parts, size = [texts[first]], len(texts[first])
        while size < ANSWER:
            parts.append(texts[(first + len(parts)) % len(texts)])
            size += 1 + len(parts[-1])
        found.append(" ".join(parts))
    return found


def _greatest(weights: Weights, texts: Sequence[str], window: int) -> Reals:
    """float64 [texts]: the greatest score of any label in any window."""
    parts = [[text[begin:end] for begin, end in windows(text, window)] for text in texts]
    if not parts:
        return np.zeros(0)
    scores = placed(weights.logits([features(each, BITS) for part in parts for each in part])).max(axis=1)
    return np.maximum.reduceat(scores, np.cumsum([0, *(len(part) for part in parts[:-1])]))


def split(texts: Sequence[str], found: Sequence[Features]) -> Reals:
    """float64 [texts], within 0 and 1, the same for texts that are nearly the same, and given by those alone.

    Nearly the same are texts that share the least of their features by four hashes in a row (MinHash, Broder 1997), in
    one of sixteen such rows: half of the features in common is enough for most.
    """
    names = [int.from_bytes(keyed_bytes("split", text.encode())[:8], "big") for text in texts]
    ids = np.concatenate([each if len(each) else np.zeros(1, np.uint32) for each in found]).astype(np.uint64)
    rows = np.cumsum([0, *(max(len(each), 1) for each in found[:-1])])
    above = list(range(len(texts)))

    def top(at: int) -> int:
        while above[at] != at:
            above[at] = above[above[at]]
            at = above[at]
        return at

    for band in range(BANDS):
        keys = np.stack([np.minimum.reduceat(_hashed(ids, band * ROWS + row), rows) for row in range(ROWS)], axis=1)
        first: dict[bytes, int] = {}
        for at, key in enumerate(keys):
            one, other = top(first.setdefault(key.tobytes(), at)), top(at)
            above[max(one, other)] = min(one, other)
    least: dict[int, int] = {}
    for at, name in enumerate(names):
        least[top(at)] = min(name, least.get(top(at), name))
    return np.array([least[top(at)] / 2**64 for at in range(len(texts))], np.float64)


def _hashed(ids: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    values = ids * np.uint64(0x9E3779B97F4A7C15) + np.uint64((seed + 1) * 0xC2B2AE3D27D4EB4F % 2**64)
    for _ in range(2):
        values = (values ^ (values >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return values


@dataclass(slots=True)
class Weights:
    """`of`: float64 [2 ** bits, labels]; `bias`: float64 [labels]."""

    of: Reals
    bias: Reals

    def logits(self, texts: Sequence[Features]) -> Reals:
        """float64 [texts, labels]."""
        rows, ids, roots = _flat(texts)
        return _summed(rows, self.of[ids], len(texts)) / roots[:, None] + self.bias


def fit_both(texts: Sequence[Features], labels: npt.NDArray[np.int64], count: int) -> Weights:
    """Weights for labels 0 … count of texts: the first column of any but 0, the others of 2 … count against 1."""
    parts = [fit(texts, np.minimum(labels, 1), 1)]
    if count > 1:
        others = np.flatnonzero(labels > 0)
        parts.append(fit([texts[each] for each in others.tolist()], labels[others] - 1, count - 1))
    return Weights(np.concatenate([each.of for each in parts], axis=1), np.concatenate([each.bias for each in parts]))


def fit(texts: Sequence[Features], labels: npt.NDArray[np.int64], count: int) -> Weights:
    """Weights for labels 1 … count against label 0; label of each text: int64 [texts]."""
    weights = Weights(np.zeros((1 << BITS, count)), np.zeros(count))
    squares, bias_squares = np.full((1 << BITS, count), 1e-6), np.full(count, 1e-6)
    for epoch in range(max(LEAST_EPOCHS, min(EPOCHS, VISITS // len(texts)))):
        order = np.argsort(_hashed(np.arange(len(texts), dtype=np.uint64), epoch), kind="stable")
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            rows, ids, roots = _flat([texts[each] for each in chosen.tolist()])
            shares = _shares(_summed(rows, weights.of[ids], len(chosen)) / roots[:, None] + weights.bias)
            wrong = shares - (labels[chosen][:, None] == np.arange(1, count + 1))
            known, places = np.unique(ids, return_inverse=True)
            slope = _summed(places, (wrong / roots[:, None])[rows], len(known)) + DECAY * weights.of[known]
            squares[known] += slope * slope
            weights.of[known] -= RATE * slope / np.sqrt(squares[known])
            slope = _summed(np.zeros(len(chosen), np.int64), wrong, 1)[0]
            bias_squares += slope * slope
            weights.bias -= RATE * slope / np.sqrt(bias_squares)
    return weights


def _shares(logits: Reals) -> Reals:
    """The share of each label, float64 [texts, labels]; what is missing to one is that of label 0."""
    most = np.maximum(logits.max(axis=1, keepdims=True), 0)
    powers = exponential(logits - most)
    total = exponential(-most)
    for column in range(powers.shape[1]):
        total = total + powers[:, column : column + 1]
    result: Reals = powers / total
    return result


def _flat(texts: Sequence[Features]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Reals]:
    counts = np.array([len(each) for each in texts], np.int64)
    ids = np.concatenate(texts).astype(np.int64) if len(texts) else np.zeros(0, np.int64)
    return np.repeat(np.arange(len(texts)), counts), ids, np.sqrt(np.maximum(counts, 1).astype(np.float64))


def _summed(places: npt.NDArray[np.int64], values: Reals, count: int) -> Reals:
    """float64 [count, columns]: values [n, columns] added one by one, in their order, where `places` says."""
    columns = [np.bincount(places, values[:, at], count) for at in range(values.shape[1])]
    return np.stack(columns, axis=1)
