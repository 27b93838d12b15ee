"""The policies of a run in its report: the reward of each iteration against how far it is from the reference. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from tutti.contracts.sampling.v1 import Experience
from tutti.web.charts import Series, chart, describe
from tutti.web.rollouts import agreement, is_marked, reward_against_kl

KINDS = ("grpo", "ppo")
"""The kinds of stages that record the divergence of each iteration; `dpo` has no iterations and no such curve."""
SHOWN_ITERATIONS = 12


@dataclass(frozen=True)
class Policy:
    """The iterations that a stage recorded, in order.

    `limit` is the divergence in nats an answer at which its training stops, 0 for none. `compared` are the differences
    between log-probabilities of sampling and of training.
    """

    stage: str
    iterations: tuple[Experience, ...]
    limit: float = 0.0
    compared: Sequence[Series] = ()


@dataclass(frozen=True)
class DrawnPolicy:
    """A chart of a policy, what is said below it, and some of its iterations as rows."""

    stage: str
    svg: Markup
    words: str
    legend: str
    rows: tuple[Experience, ...]
    count: int


def newest_line(found: Iterable[Experience]) -> tuple[Experience, ...]:
    """Return the iterations of the highest line of a job, in order."""
    every = sorted(found, key=lambda each: (_line(each), each.iteration))
    return tuple(each for each in every if _line(each) == _line(every[-1]))


def stop_kl(training: str) -> float:
    """Return the divergence in nats an answer at which a training (JSON) stops; 0 for none."""
    parameters = json.loads(training or "{}").get("program_parameters") or {}
    return float(parameters.get("stop_kl", 0.0))


def drawn(policies: Sequence[Policy]) -> list[DrawnPolicy]:
    """Return the policies that have a point to draw."""
    found = []
    for at, policy in enumerate(policies):
        series = reward_against_kl(policy.iterations, policy.limit)
        series = replace(series, title=f"{policy.stage}: reward against KL")
        if svg := chart(series, ident=f"policy{at}"):
            rows = tuple(policy.iterations[each] for each in spread(len(policy.iterations), SHOWN_ITERATIONS))
            found.append(
                DrawnPolicy(
                    policy.stage,
                    Markup(svg),  # noqa: S704  (escaped where it is made)
                    describe(series),
                    _legend(policy),
                    rows,
                    len(policy.iterations),
                )
            )
    return found


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` indices, evenly spread, the first and the last among them."""
    return sorted({at * (count - 1) // max(1, most - 1) for at in range(most)}) if count else []


def _legend(policy: Policy) -> str:
    where = "the red mark at the foot" if is_marked(policy.iterations, policy.limit) else "beyond this figure"
    stops = f"stops at {policy.limit:g} nats, {where}" if policy.limit else "has no limit of the divergence"
    told = "A ring is an iteration; the line joins them in order. The reference is at 0."
    return f"{told} The training {stops}. {agreement(policy.compared)}"


def _line(found: Experience) -> int:
    return int(found.name.split("/")[2])
