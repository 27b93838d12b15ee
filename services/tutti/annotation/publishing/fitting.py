"""Preferences fitted to a set of judgements. Pure.

Promises: the lines follow from the set and the version of the fit; pairs are in order of their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tutti.annotation.judging.pairs import EQUAL
from tutti.corpus.conversations.conversations import Preference
from tutti.corpus.conversations.judgementset import JudgementLine, PairLine
from tutti.judgements.fit import Fit, Observations, fit
from tutti.judgements.formats import formatting
from tutti.native.arrays import np
from tutti.records.canonical import JsonValue

LOGIC_VERSION = "preferences-2"
RELIABILITY, PLAIN, CERTAIN = "reliability@1", "plain@1", "certain@1"
"""CERTAIN takes the share of the judgements as the probability: nobody errs."""
FITS = (RELIABILITY, PLAIN, CERTAIN)
DIGITS = 6
"""Digits of recorded estimates: more would depend on the machine that fits."""
NEVER = 1e-6
_WITHOUT_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_UNIT = re.compile(f"[{_WITHOUT_SPACES}]|[^\\s{_WITHOUT_SPACES}]+")


@dataclass(frozen=True)
class Weighed:
    """An annotator in a fit: estimates with their standard errors, and how many judgements were fitted. There is no
    estimate of `format` where no two answers differ in it.
    """

    key: str
    judgements: int
    controls: int
    sharpness: tuple[float, float]
    position: tuple[float, float]
    length: tuple[float, float]
    format: tuple[float, float] | None = None
    weight: float = 1.0

    def to_json(self) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {
            "annotator": self.key,
            "controls": self.controls,
            "judgements": self.judgements,
            "length": list(self.length),
            "position": list(self.position),
            "sharpness": list(self.sharpness),
            "weight": self.weight,
        }
        return found if self.format is None else found | {"format": list(self.format)}


@dataclass(frozen=True)
class Fitted:
    """`unidentified` says what the judgements cannot determine; empty where they determine everything."""

    preferences: Sequence[Preference]
    annotators: Sequence[Weighed]
    judgements: int
    unidentified: Sequence[str]
    converged: bool


def fitted(
    pairs: Sequence[PairLine],
    judgements: Sequence[JudgementLine],
    axis: str,
    version: str = RELIABILITY,
    weights: Mapping[str, float] | None = None,
) -> Fitted:
    """Fit the judgements of an axis by a version of FITS. Both bad counts as a tie.

    `weights` above 0 and below 1 are by the keys of annotators; the others have the weight 1.
    """
    index = {pair.number: place for place, pair in enumerate(pairs)}
    said = [each for each in judgements if axis in each.scores]
    keys = sorted({each.annotator for each in said})
    key_index = {key: place for place, key in enumerate(keys)}
    known = np.array([0.0 if pair.kind in EQUAL else np.nan for pair in pairs])
    observed = Observations(
        pair=np.array([index[each.pair] for each in said], np.int64),
        annotator=np.array([key_index[each.annotator] for each in said], np.int64),
        first=np.array([_first(each.scores, axis) for each in said], np.float64),
        left=np.array([each.left for each in said], bool),
        lengths=np.array([[float(length(text)) for text in pair.answers] for pair in pairs]).reshape(len(pairs), 2),
        margins=known.reshape(len(pairs)),
        annotators=len(keys),
        weights=np.array([(weights or {}).get(key, 1.0) for key in keys], np.float64),
        formats=np.array([[formatting(text) for text in pair.answers] for pair in pairs]).reshape(len(pairs), 2),
    )
    found = fit(observed, alike=version != RELIABILITY)
    ordinary = np.isnan(known)
    votes = np.bincount(observed.pair, observed.weight, minlength=len(pairs))
    first = np.bincount(observed.pair, observed.weight * observed.first, minlength=len(pairs))
    shares = first / np.where(votes > 0, votes, 1.0)
    lines = [
        Preference(
            pair.prompt,
            pair.answers,
            _chance(float(shares[place] if version == CERTAIN and votes[place] else found.chance[place])),
            judged=round(float(shares[place]), DIGITS) if votes[place] else None,
            stops=pair.stops,
        )
        for place, pair in enumerate(pairs)
        if ordinary[place]
    ]
    return Fitted(lines, _weighed(observed, found, keys, ordinary), len(said), found.unidentified, found.converged)


def estimated(
    pairs: Sequence[PairLine],
    judgements: Sequence[JudgementLine],
    axis: str,
    version: str = RELIABILITY,
    weights: Mapping[str, float] | None = None,
) -> Fitted:
    """The same without the lines, which have the texts of all pairs."""
    return replace(fitted(pairs, judgements, axis, version, weights), preferences=())


def length(text: str) -> int:
    """Words of a text; where words have no spaces between them, characters."""
    return len(_UNIT.findall(text))


def _first(scores: Mapping[str, int | str], axis: str) -> float:
    """1 where the first answer was preferred, 0 where the second was, .5 for a tie."""
    score = scores[axis]
    if not isinstance(score, int) or score == 0:
        return 0.5
    return 1.0 if score < 0 else 0.0


def _chance(value: float) -> float:
    return round(min(max(value, NEVER), 1 - NEVER), DIGITS)


def _weighed(observed: Observations, found: Fit, keys: Sequence[str], ordinary: np.ndarray) -> list[Weighed]:
    count = np.bincount(observed.annotator, minlength=len(keys))
    controls = np.bincount(observed.annotator[~ordinary[observed.pair]], minlength=len(keys))
    return [
        Weighed(
            key,
            int(count[place]),
            int(controls[place]),
            _estimate(found.reliability[place], found.errors[place, 0]),
            _estimate(found.position[place], found.errors[place, 1]),
            _estimate(found.length[place], found.errors[place, 2]),
            None if found.format is None else _estimate(found.format[place], found.errors[place, 3]),
            1.0 if observed.weights is None else float(observed.weights[place]),
        )
        for place, key in enumerate(keys)
    ]


def _estimate(value: float, error: float) -> tuple[float, float]:
    return round(float(value), DIGITS), round(float(error), DIGITS)
