"""A classifier: weights of features for labelled kinds of texts, and a threshold for each; a score is a share of one.

One label, `keeps`, is what is wanted. How sure the classifier is that a text is something else is the logistic function
of the sum of the weights of its features over the square root of their number; so is, among the other labels, which is
the likeliest. The score of a label is the former where it is the likeliest, and 0 elsewhere. A classifier of windows
judges the windows of a text (windows.py) one by one: of each label the greatest score counts. Promises: the bytes
follow from the value and are named by their digest; a score follows from text and bytes on any machine, since sums are
of integers and all else is arithmetic that IEEE 754 defines to the bit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tutti.corpus.quality.features import FEATURES_VERSION, sums
from tutti.corpus.quality.windows import MOST_WINDOW, WINDOWS_VERSION, windows
from tutti.corpus.texts import require_texts
from tutti.native.arrays import np, npt, pa
from tutti.records.canonical import JsonValue, bytes_digest, canonical_json, parse_json
from tutti.records.errors import CorpusError
from tutti.records.fields import Fields

MAGIC = b"tutti classifier 1\n"
FOLDER, SUFFIX = "ingest/classifiers", ".classifier"
LABEL = re.compile(r"[a-z][a-z0-9_]{0,39}")
LEAST_BITS, MOST_BITS, MOST_LABELS = 8, 22, 20
MOST_HEADER = 1 << 20
DIGITS = 4
"""Scores and thresholds have so many decimals."""

_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10


class UnreadableClassifier(CorpusError):
    """The bytes are no classifier that this version reads."""


@dataclass(frozen=True, slots=True)
class Label:
    """A score of `threshold` or more is told as this label."""

    name: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Classifier:
    """`weights`: int16 [2 ** bits, labels], to be multiplied by `scale`, and `biases`: the first of being none that is
    kept, the others of each further label against the first. `made_of` says what it learnt from. `window`: the largest
    number of characters of the windows that it judges, for which its thresholds were chosen; 0 for whole texts.
    """

    keeps: str
    labels: tuple[Label, ...]
    biases: tuple[float, ...]
    scale: float
    weights: npt.NDArray[np.int16]
    made_of: Mapping[str, JsonValue] = field(default_factory=dict)
    window: int = 0

    @property
    def bits(self) -> int:
        return int(self.weights.shape[0]).bit_length() - 1

    def encode(self) -> bytes:
        """One line of canonical JSON behind MAGIC, then the weights, little-endian, feature by feature."""
        head: dict[str, JsonValue] = {
            "biases": list(self.biases),
            "bits": self.bits,
            "features": FEATURES_VERSION,
            "keeps": self.keeps,
            "labels": [{"name": each.name, "threshold": each.threshold} for each in self.labels],
            "made_of": self.made_of,
            "scale": self.scale,
        }
        if self.window:
            head |= {"window": self.window, "windows": WINDOWS_VERSION}
        return MAGIC + canonical_json(head) + b"\n" + self.weights.astype("<i2").tobytes()

    def scores(self, texts: pa.Array) -> npt.NDArray[np.float64]:
        """float64 [texts, labels], each within 0 and 1. Raises UnreadableTexts."""
        if not self.window:
            return self.scores_of_whole(texts)
        require_texts(texts)
        parts = [[text[begin:end] for begin, end in windows(text, self.window)] for text in texts.to_pylist()]
        if not parts:
            return np.zeros((0, len(self.labels)))
        found = self.scores_of_whole(pa.array([each for part in parts for each in part], pa.large_string()))
        rows = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return np.maximum.reduceat(found, rows, axis=0)

    def scores_of_whole(self, texts: pa.Array) -> npt.NDArray[np.float64]:
        """The same, each text judged as one, however long it is. Raises UnreadableTexts."""
        totals, counts = sums(texts, self.weights)
        roots = np.sqrt(np.maximum(counts, 1).astype(np.float64))[:, None]
        return placed(totals.astype(np.float64) * self.scale / roots + np.array(self.biases))


def placed(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """float64 [texts, labels]: scores, from what weights and biases sum up to."""
    likeliest = np.concatenate([np.zeros((len(logits), 1)), logits[:, 1:]], axis=1).argmax(axis=1)
    scores = np.zeros_like(logits)
    scores[np.arange(len(logits)), likeliest] = np.round(1 / (1 + exponential(-logits[:, 0])), DIGITS)
    return scores


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a classifier, before its weights."""

    keeps: str
    labels: tuple[Label, ...]
    biases: tuple[float, ...]
    scale: float
    bits: int
    made_of: Mapping[str, JsonValue]
    window: int
    size: int
    """Bytes before the weights."""


def header(data: bytes) -> Header:
    """Parse the first bytes of a classifier, MAGIC and MOST_HEADER at least. Raises UnreadableClassifier."""
    if not data.startswith(MAGIC):
        raise UnreadableClassifier("these bytes are no classifier, or of another format; train it with this version")
    line, end, _ = data[len(MAGIC) : len(MAGIC) + MOST_HEADER].partition(b"\n")
    value = parse_json(line) if end else None
    if not isinstance(value, dict):
        raise UnreadableClassifier("the classifier is cut in its first line; train it again")
    fields = Fields(value, path="classifier", error=UnreadableClassifier)
    if (version := fields.count("features")) != FEATURES_VERSION:
        raise UnreadableClassifier(
            f"the classifier counts features of version {version}, this version those of {FEATURES_VERSION}; "
            "train it again"
        )
    labels = tuple(Label(each.text("name"), each.number("threshold")) for each in fields.objects("labels"))
    listed = fields.value("biases")
    biases = [float(each) for each in listed if isinstance(each, int | float)] if isinstance(listed, list) else []
    if len(biases) != len(labels):
        raise UnreadableClassifier(f"{len(biases)} biases; expected a number for each of {len(labels)} labels")
    bits = fields.count("bits")
    if not (LEAST_BITS <= bits <= MOST_BITS and 0 < len(labels) <= MOST_LABELS):
        raise UnreadableClassifier(f"{len(labels)} labels and {bits} bits; expected at most {MOST_LABELS}, {MOST_BITS}")
    window = fields.count("window") if "window" in value else 0
    if window and (window > MOST_WINDOW or (version := fields.count("windows")) != WINDOWS_VERSION):
        raise UnreadableClassifier(
            f"the classifier judges windows of {window} characters, version {version}; this version at most "
            f"{MOST_WINDOW}, version {WINDOWS_VERSION}: train it again"
        )
    made_of = value.get("made_of")
    return Header(
        keeps=fields.text("keeps"),
        labels=labels,
        biases=tuple(biases),
        scale=fields.number("scale"),
        bits=bits,
        made_of=made_of if isinstance(made_of, dict) else {},
        window=window,
        size=len(MAGIC) + len(line) + 1,
    )


def key_of(digest: str) -> str:
    """The blob key of the model with a digest."""
    return f"{FOLDER}/{digest.removeprefix('blake3:')}{SUFFIX}"


def decode(data: bytes, digest: str = "") -> Classifier:
    """The classifier of its bytes, which have this digest where one is given. Raises UnreadableClassifier."""
    if digest and (seen := bytes_digest(data)) != digest:
        raise UnreadableClassifier(f"the classifier is damaged: its bytes are {seen}, expected {digest}")
    head = header(data)
    rows, labels = 1 << head.bits, len(head.labels)
    if len(data) - head.size != 2 * rows * labels:
        raise UnreadableClassifier(f"{len(data) - head.size} bytes of weights; expected {2 * rows * labels}")
    weights = np.frombuffer(data, "<i2", offset=head.size).astype(np.int16).reshape(rows, labels)
    return Classifier(head.keeps, head.labels, head.biases, head.scale, weights, head.made_of, head.window)


def exponential(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """exp(x) of |x| ≤ 700, others as these, by Taylor's series behind a power of two: what a libm rounds in its own way
    is here the same bits everywhere, within 1e-15 of the truth.
    """
    values = np.clip(values, -700, 700)
    powers = np.rint(values / _LN2_HIGH)
    rest = values - powers * _LN2_HIGH - powers * _LN2_LOW
    series = np.ones_like(rest)
    for term in range(13, 0, -1):
        series = 1 + series * rest / term
    result: npt.NDArray[np.float64] = np.ldexp(series, powers.astype(np.int64))
    return result


def told(scores: npt.NDArray[np.float64], thresholds: Sequence[float]) -> npt.NDArray[np.int64]:
    """int64 [texts]: 1 and up for the label whose threshold is reached, 0 for what is kept."""
    reached = (scores >= np.array(thresholds)) & (scores > 0)
    return np.where(reached.any(axis=1), 1 + reached.argmax(axis=1), 0)
