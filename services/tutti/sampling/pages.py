"""The pages of rollouts: what policies wrote while they were trained, iteration by iteration.

Promises: read-only; an iteration whose rollouts were removed shows its figures and says so. A page is shown without the
curves of the committer if it does not answer.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.errors import InvalidField, NotFound, Problem
from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Host
from tutti.chassis.store.resources import Listed
from tutti.contracts.committer.v1 import GetCurveRequest
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.sampling.v1 import (
    EXPERIENCE_STATE_STORED,
    ROLLOUT_ORDER_BEST,
    ROLLOUT_ORDER_KL,
    ROLLOUT_ORDER_LONGEST,
    ROLLOUT_ORDER_WORST,
    Experience,
    Rollout,
)
from tutti.sampling.experiences import Experiences
from tutti.web.charts import Series
from tutti.web.pages import Entry, Get, Page, Site, Visit
from tutti.web.rollouts import agreement, curves, parity

ROLES = frozenset({Role.ENGINEER, Role.OPERATOR})
ORDERS = {
    "best": ROLLOUT_ORDER_BEST,
    "worst": ROLLOUT_ORDER_WORST,
    "longest": ROLLOUT_ORDER_LONGEST,
    "kl": ROLLOUT_ORDER_KL,
}
TITLES = {"best": "Best", "worst": "Worst", "longest": "Longest", "kl": "Highest KL"}
SHOWN, SHOWN_POLICIES = 20, 200
CURVE_POINTS = 2000
SECONDS = 3.0  # for one question to the committer, so that a page is shown before its own deadline


@dataclass(frozen=True)
class PolicyRow:
    """A line of a job: its iterations, and the figures of the last one."""

    path: str
    job: str
    iterations: int
    reward_mean: float
    kl: float
    stored: int


@dataclass(frozen=True)
class PoliciesView:
    """`damaged`: the reason for each iteration that is left out."""

    policies: list[PolicyRow]
    more: int
    damaged: Sequence[str] = ()


@dataclass(frozen=True)
class IterationRow:
    path: str
    iteration: int
    step: int
    reward_mean: float
    kl: float
    answer_tokens: float
    groups_dropped: int
    stored: bool


@dataclass(frozen=True)
class PolicyView:
    """The iterations, newest first, and curves of their figures.

    `agreement` says how log-probabilities of sampling compare with those of training; `damaged`: the reason for each
    iteration that is left out.
    """

    path: str
    job: str
    iterations: list[IterationRow]
    curves: list[Series]
    agreement: str
    damaged: Sequence[str] = ()


@dataclass(frozen=True)
class RolloutView:
    number: int
    prompt: str
    text: str
    tokens: int
    stop: str
    reward: float
    advantage: float
    kl: float
    kept: bool


@dataclass(frozen=True)
class OrderLink:
    order: str
    title: str
    chosen: bool


@dataclass(frozen=True)
class IterationView:
    """Rollouts of one iteration in an order; none where they were removed. `before` and `after` are paths, or empty."""

    policy: str
    path: str
    job: str
    row: IterationRow
    rollouts: list[RolloutView]
    count: int
    orders: list[OrderLink]
    before: str
    after: str


class RolloutPages:
    def __init__(self, host: Host, experiences: Experiences) -> None:
        self._host, self._experiences = host, experiences
        self._committer = CommitterServiceStub(host.channel("committer"))

    @property
    def site(self) -> Site:
        return Site(
            name="sampling",
            package="tutti.sampling",
            routes=[
                Get("/experiences", self.policies, ROLES),
                Get("/experiences/{job}/{line}", self.policy, ROLES, version=self.version),
                Get("/experiences/{job}/{line}/{iteration}", self.iteration, ROLES, version=self.iteration_version),
            ],
            menu=[Entry("Rollouts", "/experiences", ROLES)],
        )

    def policies(self, visit: Visit) -> Page:
        lines: dict[str, list[Experience]] = {}
        listed = self._listed(visit)
        for each in listed.found:
            lines.setdefault(each.name.rpartition("/")[0], []).append(each)
        rows = [policy_row(name, found) for name, found in lines.items()]
        view = PoliciesView(rows[:SHOWN_POLICIES], len(rows[SHOWN_POLICIES:]), listed.damaged)
        return Page("policies.html", "Rollouts", view)

    def policy(self, visit: Visit) -> Page:
        line, found, damaged = self._line(visit)
        rows, compared = [iteration_row(each) for each in reversed(found)], self._compared(line)
        view = PolicyView(f"/{line}", found[0].job, rows, [*curves(found), *compared], agreement(compared), damaged)
        return Page("policy.html", f"Rollouts of {view.job}", view)

    def version(self, visit: Visit) -> str:
        return str(len(self._line(visit)[1]))

    def iteration(self, visit: Visit) -> Page:
        order = visit.query.get("order", "best")
        if order not in ORDERS:
            raise InvalidField("order", seen=order[:200], expected=f"one of {', '.join(ORDERS)}")
        line, found, _ = self._line(visit)
        names = [each.name for each in found]
        wanted = f"{line}/{visit.path['iteration']}"
        if wanted not in names:
            raise NotFound(wanted[:200])
        at = names.index(wanted)
        known = found[at]
        stored = known.state == EXPERIENCE_STATE_STORED
        rollouts = self._experiences.rollouts(known, ORDERS[order], SHOWN) if stored else []
        view = IterationView(
            policy=f"/{line}",
            path=f"/{known.name}",
            job=known.job,
            row=iteration_row(known),
            rollouts=[shown(each) for each in rollouts],
            count=known.rollouts,
            orders=[OrderLink(each, TITLES[each], each == order) for each in ORDERS],
            before=f"/{names[at - 1]}" if at else "",
            after=f"/{names[at + 1]}" if at + 1 < len(names) else "",
        )
        return Page("iteration.html", f"Iteration {known.iteration} of {known.job}", view)

    def iteration_version(self, visit: Visit) -> str:
        """The revision: its rollouts may be removed."""
        name = f"experiences/{visit.path['job']}/{visit.path['line']}/{visit.path['iteration']}"
        return str(self._host.units.run(lambda unit: self._experiences.resource.get(unit, name)).revision)

    def _compared(self, line: str) -> list[Series]:
        """Return the differences between sampling and training to the newest checkpoint of a line; none if unknown."""
        name = line.partition("/")[2]
        with contextlib.suppress(Problem):
            head = self._committer.GetLine(GetRequest(name=f"lines/{name}"), timeout=SECONDS).head
            asked = GetCurveRequest(name=f"checkpoints/{name}/{head}", max_points=CURVE_POINTS)
            return parity(self._committer.GetCurve(asked, timeout=SECONDS))
        return []

    def _line(self, visit: Visit) -> tuple[str, list[Experience], Sequence[str]]:
        """The name of a job's line, its experiences by iteration, and what is damaged. Raises NotFound."""
        line = f"experiences/{visit.path['job']}/{visit.path['line']}"
        listed = self._listed(visit, job=f"jobs/{visit.path['job']}")
        found = [each for each in listed.found if each.name.rpartition("/")[0] == line]
        if not found:
            raise NotFound(line[:200])
        return line, sorted(found, key=lambda each: each.iteration), listed.damaged

    def _listed(self, visit: Visit, **columns: str) -> Listed[Experience]:
        resource = self._experiences.resource
        return self._host.units.run(lambda unit: resource.readable(unit, visit.principal, **columns))


def policy_row(name: str, found: Sequence[Experience]) -> PolicyRow:
    newest = max(found, key=lambda each: each.iteration)
    stored = sum(each.state == EXPERIENCE_STATE_STORED for each in found)
    return PolicyRow(f"/{name}", newest.job, len(found), newest.reward_mean, newest.kl, stored)


def iteration_row(found: Experience) -> IterationRow:
    return IterationRow(
        path=f"/{found.name}",
        iteration=found.iteration,
        step=found.step,
        reward_mean=found.reward_mean,
        kl=found.kl,
        answer_tokens=found.answer_tokens,
        groups_dropped=found.groups_dropped,
        stored=found.state == EXPERIENCE_STATE_STORED,
    )


def shown(rollout: Rollout) -> RolloutView:
    return RolloutView(
        number=rollout.number,
        prompt=rollout.prompt,
        text=rollout.text,
        tokens=rollout.tokens,
        stop=rollout.stop,
        reward=rollout.reward,
        advantage=rollout.advantage,
        kl=rollout.kl,
        kept=rollout.kept,
    )
