"""Bradley-Terry with each annotator's reliability and leanings, by expectation maximisation.

The margin d of a pair, by how much its first answer is better, has the prior N(0, 1). Annotator k prefers the first
with probability sigmoid(a_k d + b_k s + c_k g + f_k h): a_k is the reliability, b_k the leaning to the answer on the
left (s is 1 where the first answer was shown there, else -1), c_k the leaning to the longer one (g is the difference of
lengths in units of its root mean square), f_k the leaning to the one with more formatting (h is the difference of
formatting in units of its root mean square over the pairs that differ in it). Where no ordinary pair differs there is
no f_k, and the other estimates have the bits that they have without it. The posterior of d is computed by Gauss-Hermite
quadrature (Bock and Aitkin 1981), the mode of a_k, b_k, c_k and f_k by Newton's method under normal priors. The
log-likelihood of each judgement is multiplied by the weight of its annotator, in the posterior and in the mode (a
weighted likelihood: Hu and Zidek 2002).

Control pairs have a known margin: 0 for an answer beside itself with filler, or in another format. Without them a
leaning that all annotators share cannot be distinguished from quality, and with one judgement a pair reliability cannot
be estimated either; both are reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tutti.judgements import LEAST_CONTROLS, LEAST_RESTYLED
from tutti.native.arrays import np, npt

Floats: TypeAlias = "npt.NDArray[np.float64]"
Integers: TypeAlias = "npt.NDArray[np.int64]"

NODES = 31
ROUNDS = 300
TOLERANCE = 1e-6
NEWTON_STEPS = 2
LONGEST_STEP = 2.0
PRIOR_MEAN = (1.5, 0.0, 0.0, 0.0)
PRIOR_DEVIATION = (1.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Observations:
    """Judgements, one an entry, and the pairs that they are about.

    pair, annotator: int64[judgements], from 0. first: float64[judgements], 1 where the pair's first answer was
    preferred, 0 where its second was, .5 for a tie. left: bool[judgements], whether the first answer was shown on the
    left. lengths: float64[pairs, 2], of both answers in any unit. margins: float64[pairs], the known margin of a
    control pair, NaN for the others. weights: float64[annotators], each above 0 and at most 1; None for 1 each.
    formats: float64[pairs, 2], the formatting of both answers in any unit; None for equal formatting everywhere.
    """

    pair: Integers
    annotator: Integers
    first: Floats
    left: npt.NDArray[np.bool_]
    lengths: Floats
    margins: Floats
    annotators: int
    weights: Floats | None = None
    formats: Floats | None = None

    @property
    def weight(self) -> Floats:
        """The weight of each judgement, float64[judgements]."""
        return np.ones(len(self.pair)) if self.weights is None else self.weights[self.annotator]

    def __post_init__(self) -> None:
        """Raises ValueError."""
        pairs, judgements = len(self.margins), len(self.pair)
        if self.weights is not None:
            if self.weights.shape != (self.annotators,):
                raise ValueError(f"weights has shape {self.weights.shape}; expected {(self.annotators,)}")
            if not ((self.weights > 0) & (self.weights <= 1)).all():
                raise ValueError("weights has values outside 0 … 1; leave out the judgements of weight 0")
        shapes = {
            "annotator": (self.annotator.shape, (judgements,)),
            "first": (self.first.shape, (judgements,)),
            "left": (self.left.shape, (judgements,)),
            "lengths": (self.lengths.shape, (pairs, 2)),
        }
        if self.formats is not None:
            shapes["formats"] = (self.formats.shape, (pairs, 2))
        for name, (seen, expected) in shapes.items():
            if seen != expected:
                raise ValueError(f"{name} has shape {seen}; expected {expected}")
        for name, indices, limit in (("pair", self.pair, pairs), ("annotator", self.annotator, self.annotators)):
            if judgements and not (indices.min() >= 0 and indices.max() < limit):
                raise ValueError(f"{name} is {indices.min()} … {indices.max()}; expected 0 … {limit - 1}")
        if not ((self.first >= 0) & (self.first <= 1)).all():
            raise ValueError("first has values outside 0 … 1")


ALIKE = "reliability and leanings: this fit takes all annotators for alike; choose reliability@1 to estimate them"


@dataclass(frozen=True)
class Fit:
    """The estimates from a set of judgements.

    reliability, position, length, format: float64[annotators], a, b, c and f, the last one None where no
    ordinary pair differs in formatting; errors: float64[annotators, 3 or 4], their standard errors. margin:
    float64[pairs], the posterior mean of d; chance: float64[pairs], the posterior probability that the first answer is
    the better one. `unidentified` says what the judgements cannot determine; empty where they determine everything.
    """

    reliability: Floats
    position: Floats
    length: Floats
    format: Floats | None
    errors: Floats
    margin: Floats
    chance: Floats
    length_unit: float
    rounds: int
    converged: bool
    unidentified: tuple[str, ...]


def fit(observed: Observations, *, alike: bool = False) -> Fit:
    """Estimate annotators and pairs. Equal observations in equal order give equal bits on one machine.

    With `alike` every annotator is taken for equally reliable and without leanings: plain Bradley-Terry.
    """
    known = ~np.isnan(observed.margins)
    gaps, unit = _gaps(observed.lengths, known)
    leans = [np.where(observed.left, 1.0, -1.0), gaps[observed.pair]]
    formats = None if alike else _format_gaps(observed.formats, known)
    if formats is not None:
        leans.append(formats[observed.pair])
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    prior = np.log(weights / weights.sum())
    margins = np.where(known[:, None], np.where(known, observed.margins, 0.0)[:, None], nodes)
    features = np.stack([np.zeros(len(observed.pair)), *leans], 1)
    parameters = np.tile(PRIOR_MEAN[: features.shape[1]], (observed.annotators, 1))
    posterior = _posterior(observed, parameters, margins, features, prior)
    rounds, converged = 0, alike
    while rounds < ROUNDS and not converged:
        before = parameters
        for _ in range(NEWTON_STEPS):
            parameters = _improved(observed, parameters, margins, features, posterior)
        posterior = _posterior(observed, parameters, margins, features, prior)
        rounds, converged = rounds + 1, bool(np.abs(parameters - before).max(initial=0.0) < TOLERANCE)
    positive = (margins > 0) + 0.5 * (margins == 0)
    return Fit(
        reliability=parameters[:, 0],
        position=parameters[:, 1],
        length=parameters[:, 2],
        format=None if formats is None else parameters[:, 3],
        errors=_errors(observed, parameters, margins, features, posterior),
        margin=(posterior * margins).sum(1),
        chance=(posterior * positive).sum(1),
        length_unit=unit,
        rounds=rounds,
        converged=converged,
        unidentified=_unidentified(observed, known, formats) if not alike else (ALIKE,),
    )


def _gaps(lengths: Floats, known: npt.NDArray[np.bool_]) -> tuple[Floats, float]:
    """The differences of lengths in units of their root mean square over ordinary pairs, and that unit."""
    difference = lengths[:, 0] - lengths[:, 1]
    ordinary = difference[~known] if not known.all() else difference
    unit = float(np.sqrt((ordinary**2).mean())) if len(ordinary) else 0.0
    return difference / unit if unit > 0 else np.zeros(len(difference)), unit


def _format_gaps(formats: Floats | None, known: npt.NDArray[np.bool_]) -> Floats | None:
    """The differences of formatting in units of their root mean square over the ordinary pairs that differ in it.

    None where no ordinary pair does: there is nothing to lean to.
    """
    if formats is None:
        return None
    difference = formats[:, 0] - formats[:, 1]
    apart = difference[~known & (difference != 0)]
    return np.asarray(difference / np.sqrt((apart**2).mean())) if len(apart) else None


def _arguments(observed: Observations, parameters: Floats, margins: Floats, features: Floats) -> Floats:
    """a d + b s + c g + f h, [judgements, nodes]."""
    own = parameters[observed.annotator]
    found: Floats = own[:, :1] * margins[observed.pair] + (own[:, 1:] * features[:, 1:]).sum(1, keepdims=True)
    return found


def _posterior(observed: Observations, parameters: Floats, margins: Floats, features: Floats, prior: Floats) -> Floats:
    """The posterior of each pair's margin over its nodes, [pairs, nodes]."""
    z = _arguments(observed, parameters, margins, features)
    first = observed.first[:, None]
    likelihoods = -first * np.logaddexp(0, -z) - (1 - first) * np.logaddexp(0, z)
    found = np.tile(prior, (len(margins), 1))
    np.add.at(found, observed.pair, observed.weight[:, None] * likelihoods)
    found = np.exp(found - found.max(1, keepdims=True))
    return np.asarray(found / found.sum(1, keepdims=True))


def _improved(
    observed: Observations, parameters: Floats, margins: Floats, features: Floats, posterior: Floats
) -> Floats:
    """The parameters after one Newton step of every annotator, [annotators, 3 or 4]."""
    z = _arguments(observed, parameters, margins, features)
    chance, weight = 1 / (1 + np.exp(-z)), observed.weight[:, None] * posterior[observed.pair]
    slope, curvature = weight * (observed.first[:, None] - chance), weight * chance * (1 - chance)
    d = margins[observed.pair]
    rest, width = features[:, 1:], features.shape[1]
    gradients = np.concatenate([(slope * d).sum(1, keepdims=True), slope.sum(1, keepdims=True) * rest], 1)
    crossed = (curvature * d).sum(1, keepdims=True) * rest
    squares = np.empty((len(z), width, width))
    squares[:, 0, 0] = (curvature * d * d).sum(1)
    squares[:, 0, 1:] = squares[:, 1:, 0] = crossed
    squares[:, 1:, 1:] = curvature.sum(1)[:, None, None] * rest[:, :, None] * rest[:, None, :]
    gradient = np.zeros_like(parameters)
    np.add.at(gradient, observed.annotator, gradients)
    gradient -= (parameters - PRIOR_MEAN[:width]) / np.square(PRIOR_DEVIATION[:width])
    hessian = np.tile(np.diag(1 / np.square(PRIOR_DEVIATION[:width])), (len(parameters), 1, 1))
    np.add.at(hessian, observed.annotator, squares)
    step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    return np.asarray(parameters + np.clip(step, -LONGEST_STEP, LONGEST_STEP))


def _errors(observed: Observations, parameters: Floats, margins: Floats, features: Floats, posterior: Floats) -> Floats:
    """Standard errors, [annotators, 3 or 4], by the empirical information: outer products of each judgement's score.

    The score of a judgement is the posterior mean of its gradient (Louis 1982), so what is not known of the margins
    makes the errors wider. A judgement of weight w adds w of its information.
    """
    z = _arguments(observed, parameters, margins, features)
    slope = posterior[observed.pair] * (observed.first[:, None] - 1 / (1 + np.exp(-z)))
    scores = np.concatenate(
        [
            (slope * margins[observed.pair]).sum(1, keepdims=True),
            slope.sum(1, keepdims=True) * features[:, 1:],
        ],
        1,
    )
    own = 1 / np.square(PRIOR_DEVIATION[: features.shape[1]])
    information = np.tile(np.diag(own), (len(parameters), 1, 1))
    np.add.at(information, observed.annotator, observed.weight[:, None, None] * scores[:, :, None] * scores[:, None, :])
    return np.asarray(np.sqrt(np.diagonal(np.linalg.inv(information), axis1=1, axis2=2)))


def _unidentified(observed: Observations, known: npt.NDArray[np.bool_], formats: Floats | None) -> tuple[str, ...]:
    ordinary = ~known[observed.pair]
    judged = np.bincount(observed.pair[ordinary], minlength=len(known))
    controls = np.bincount(observed.annotator[~ordinary], minlength=observed.annotators)
    active = np.bincount(observed.annotator, minlength=observed.annotators) > 0
    found = []
    if ordinary.any() and judged.max() < 2:
        found.append("reliability: no pair was judged by two annotators; raise the overlap")
    if lacking := int((active & (controls < LEAST_CONTROLS)).sum()):
        found.append(
            f"leanings: {lacking} of {int(active.sum())} annotators judged fewer than {LEAST_CONTROLS} control pairs; "
            "raise the share of controls"
        )
    if formats is not None:
        restyled = np.bincount(
            observed.annotator[~ordinary & (formats[observed.pair] != 0)], minlength=observed.annotators
        )
        if lacking := int((active & (restyled < LEAST_RESTYLED)).sum()):
            found.append(
                f"leaning to format: {lacking} of {int(active.sum())} annotators judged fewer than {LEAST_RESTYLED} "
                "control pairs in two formats; raise the share of controls"
            )
    return tuple(found)
