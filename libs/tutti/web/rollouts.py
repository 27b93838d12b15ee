"""Figures of the iterations of a policy, for the page of rollouts and for the report of a run. Pure."""

import math
from collections.abc import Sequence

from tutti.contracts.committer.v1 import GetCurveResponse
from tutti.contracts.sampling.v1 import Experience
from tutti.web.charts import Series, titled

NATS = "nats of KL an answer"
WIDEN = 2.0
"""A limit that is further than this many times the furthest iteration is not drawn: the others would be one point."""
APART = ("decoding_apart", "training_apart")
"""The metrics of a job that say by how many nats log-probabilities of sampling differ from those of training."""


def curves(found: Sequence[Experience]) -> list[Series]:
    """Return the reward against the divergence, then the figures by the optimizer step that had made the policy."""
    return [
        reward_against_kl(found),
        Series("Reward", "mean of an iteration", [(each.step, each.reward_mean) for each in found]),
        Series("KL", "nats an answer", [(each.step, each.kl) for each in found]),
        Series("Length", "tokens an answer", [(each.step, each.answer_tokens) for each in found]),
    ]


def reward_against_kl(found: Sequence[Experience], limit: float = 0.0) -> Series:
    """Return the mean reward of each iteration against its divergence from the reference, in the given order.

    `limit` is the divergence in nats an answer at which training stops, 0 for none; see `is_marked`.
    """
    points = [(each.kl, each.reward_mean) for each in found if math.isfinite(each.kl)]
    marks = [limit] if is_marked(found, limit) else []
    return Series("Reward against KL", "Mean reward of an iteration", points, dots=points, marks=marks, across=NATS)


def is_marked(found: Sequence[Experience], limit: float) -> bool:
    """Return whether a limit is near enough to the iterations to be drawn beside them."""
    furthest = max((each.kl for each in found if math.isfinite(each.kl)), default=0.0)
    return 0 < limit <= WIDEN * furthest


def parity(curve: GetCurveResponse) -> list[Series]:
    """Return the differences between sampling and training by the optimizer step after which they were compared."""
    return [
        Series(titled(each.name), "largest difference in nats", [(one.step, one.value) for one in each.values])
        for each in curve.metrics
        if each.name in APART
    ]


def agreement(compared: Sequence[Series]) -> str:
    """Return a sentence about the largest of these differences."""
    found = [value for series in compared for _, value in series.points]
    if not found:
        return "No checkpoint says how log-probabilities of sampling compare with those of training."
    if not (furthest := max(found)):
        return "Log-probabilities of sampling have the same bits as those of training, in every comparison."
    return f"Log-probabilities of sampling differ from those of training by at most {furthest:.3g} nats."
