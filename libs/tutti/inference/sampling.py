"""Choice of the next token from logits, by a random number that depends only on the token's position.

Counter-based (Philox, Salmon et al. 2011): a draw follows from (seed, prompt, position), so no prompt of a batch moves
the choices of another. Does not import torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tutti.inference.errors import InvalidSampling, NotFinite
from tutti.native.arrays import np, npt

_COLDEST = 1e-200
"""At this temperature all but the likeliest logits have no probability left; to divide by less would overflow."""
_LIKELIEST = 128
"""So many tokens of a row are sorted first: a top-p of 0.95 seldom needs more."""
_BORDER = 1e-9
"""Sums of probabilities that are rounded in another order differ by less than this share of the whole."""


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters.

    `temperature` divides the logits, 0 takes the likeliest token. Then all but the `top_k` likeliest are left out (0:
    none is), then all but the fewest likeliest whose probabilities reach `top_p` (Holtzman et al. 2019; 1: none is).
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises InvalidSampling."""
        for field, holds, expected in (
            ("temperature", math.isfinite(self.temperature) and self.temperature >= 0, "a number, 0 or more"),
            ("top_p", 0 < self.top_p <= 1, "a probability above 0, up to 1"),
            ("top_k", self.top_k >= 0, "a number of tokens, or 0 for all"),
            ("seed", 0 <= self.seed < 2**53, "0 ≤ seed < 2^53 (it is recorded as a JSON number)"),
        ):
            if not holds:
                raise InvalidSampling(field, seen=getattr(self, field), expected=expected)


def _require_finite(logits: npt.NDArray[np.float32]) -> None:
    if not np.isfinite(logits).all():
        raise NotFinite("the model's logits are not finite; its parameters have diverged: take an earlier checkpoint")


def draw(seed: int, prompt: int, position: int) -> float:
    """A number in [0, 1), uniform over what it is drawn for; `position` is that of the token in its text."""
    return float(draws(seed, prompt, position, 1)[0])


def draws(seed: int, prompt: int, position: int, count: int) -> npt.NDArray[np.float64]:
    """Return the draws of `count` positions from `position` on, float64 [count]."""
    key = np.array([seed, prompt], np.uint64)
    counter = np.array([position, 0, 0, 0], np.uint64)
    return _draws(np.random.Generator(np.random.Philox(counter=counter, key=key)), count)


class Draws:
    """A generator that is set to each text anew, which is cheaper than to make one. For one thread."""

    def __init__(self) -> None:
        self._key, self._counter = np.zeros(2, np.uint64), np.zeros(4, np.uint64)
        self._bits = np.random.Philox(counter=self._counter, key=self._key)
        self._generator, self._state = np.random.Generator(self._bits), self._bits.state
        self._state["state"] = {"counter": self._counter, "key": self._key}

    def draws(self, seed: int, prompt: int, position: int, count: int) -> npt.NDArray[np.float64]:
        """As the function `draws`."""
        self._key[:] = seed, prompt
        self._counter[0] = position
        self._bits.state = self._state
        return _draws(self._generator, count)


def _draws(generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
    # A block of the generator has four numbers and its counter; a draw is the first number of its position's block.
    return generator.random(4 * count)[::4]


def choose(logits: npt.NDArray[np.float32], sampling: Sampling, drawn: float) -> int:
    """The token that `drawn` in [0, 1) stands for; logits float32 [vocabulary]. Raises NotFinite.

    Of equal logits the smaller id counts as the likelier one.
    """
    _require_finite(logits)
    if sampling.temperature == 0:
        return int(np.argmax(logits))
    tokens, probabilities = kept(logits, sampling)
    sums = np.cumsum(probabilities)
    at = int(np.searchsorted(sums, drawn * sums[-1], side="right"))
    return int(tokens[min(at, len(tokens) - 1)])


def choose_each(
    logits: npt.NDArray[np.float32], sampling: Sampling, drawn: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Return `choose` for each row of logits, float32 [rows, vocabulary]; drawn float64 [rows]. Raises NotFinite."""
    _require_finite(logits)
    if sampling.temperature == 0:
        return np.asarray(logits.argmax(1), np.int64)
    if sampling.top_k or sampling.top_p < 1:
        return _choose_likeliest(logits, sampling, drawn)
    probabilities = _probabilities(logits, sampling)
    probabilities /= probabilities.sum(1, keepdims=True)
    sums = probabilities.cumsum(1)
    above = sums > (drawn * sums[:, -1])[:, None]
    found: npt.NDArray[np.int64] = above.argmax(1)
    for row in np.flatnonzero(~above[:, -1]):  # rounded up to the whole sum: the last token that has a probability
        found[row] = np.flatnonzero(probabilities[row])[-1]
    return found


def _probabilities(logits: npt.NDArray[np.float32], sampling: Sampling) -> npt.NDArray[np.float64]:
    """Return what the probabilities of each row are proportional to, the likeliest token's is 1."""
    found = logits.astype(np.float64)
    if sampling.temperature != 1.0:
        found /= max(sampling.temperature, _COLDEST)
    found -= found.max(1, keepdims=True)
    np.exp(found, out=found)
    return found


def _choose_likeliest(
    logits: npt.NDArray[np.float32], sampling: Sampling, drawn: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """As `choose_each` with top_p or top_k, without sorting all tokens of a row.

    Only the likeliest are sorted. Sums are then rounded otherwise than those of `choose`, so a row in which a border
    differs by less than _BORDER from the number that is compared with it, or that needs more tokens, uses `choose`.
    """
    rows, vocabulary = logits.shape
    count = min(max(_LIKELIEST, sampling.top_k + 1), vocabulary)
    weights = _probabilities(logits, sampling)
    if count < vocabulary:
        tokens = np.sort(np.argpartition(logits, vocabulary - count, axis=1)[:, vocabulary - count :], axis=1)
    else:
        tokens = np.broadcast_to(np.arange(vocabulary), logits.shape)
    own = np.take_along_axis(logits, tokens, 1)
    order = np.argsort(-own, axis=1, kind="stable")
    tokens, own = np.take_along_axis(tokens, order, 1), np.take_along_axis(own, order, 1)
    sorted_weights = np.take_along_axis(weights, tokens, 1)
    if sampling.top_k:
        most = min(sampling.top_k, vocabulary)
        whole = sorted_weights[:, :most].sum(1)
    else:
        most, whole = count, weights.sum(1)
    sums = np.cumsum(sorted_weights[:, :most], 1)
    # Of tokens with the logit of the last one, others may have been left out: sums up to them do not count.
    cut = own[:, :most] > own[:, -1:] if count < vocabulary else np.ones_like(own[:, :most], bool)
    reached = sums >= (sampling.top_p * whole)[:, None]
    enough = np.where(reached.any(1), reached.argmax(1), most - 1) if sampling.top_p < 1 else np.full(rows, most - 1)
    at = np.arange(rows)
    limit = drawn * sums[at, enough]
    places = (sums > limit[:, None]).argmax(1)
    sure = (np.abs(sums - limit[:, None]) > _BORDER * whole[:, None]).all(1) & cut[at, enough]
    if sampling.top_p < 1:
        sure &= reached.any(1) & (np.abs(sums - (sampling.top_p * whole)[:, None]) > _BORDER * whole[:, None]).all(1)
    found: npt.NDArray[np.int64] = tokens[at, places]
    for row in np.flatnonzero(~sure):
        found[row] = choose(logits[row], sampling, float(drawn[row]))
    return found


def kept(logits: npt.NDArray[np.float32], sampling: Sampling) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The tokens that can be chosen at a temperature above 0, and their probabilities, which sum to 1."""
    tokens = np.arange(len(logits))
    if sampling.top_k or sampling.top_p < 1:
        tokens = np.argsort(-logits, kind="stable")[: sampling.top_k or None]
    scaled = logits[tokens].astype(np.float64) / max(sampling.temperature, _COLDEST)
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    if sampling.top_p < 1:
        enough = int(np.searchsorted(np.cumsum(probabilities), sampling.top_p, side="left")) + 1
        tokens, probabilities = tokens[:enough], probabilities[:enough]
        probabilities /= probabilities.sum()
    possible = probabilities > 0
    return tokens[possible], probabilities[possible]
