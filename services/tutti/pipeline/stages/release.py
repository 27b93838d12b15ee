"""The stage `release`: a gate that lets a checkpoint through, or says which rule it breaks."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from tutti.chassis.config.recipetext import Part, Real
from tutti.chassis.errors import InvalidField
from tutti.contracts.evaluation.v1 import STANDING_REFUSED, Comparison, Release, ReleasedComparison, ReleaseSpec
from tutti.pipeline.definitions.definition import Role, StageContext, StageDef, resource_of
from tutti.pipeline.recipes.values import Result
from tutti.pipeline.recipes.view import View

Rule = Literal["win", "gap", "kl"]


class ReleaseSection(Part):
    rules: list[Rule] = Field(
        default=["win", "gap", "kl"], min_length=1, max_length=3, description="rules that each comparison must pass"
    )
    win: Real = Field(
        default=0.5, ge=0, le=1, description="minimum for the lower confidence bound of the judged win rate"
    )
    gap: Real = Field(default=0.2, ge=0, le=1, description="maximum difference between predicted and judged win rate")
    kl: Real = Field(default=15.0, ge=0, description="maximum KL divergence from the baseline, in nats per answer")


class ReleaseStage(StageDef):
    name = "release"
    work = Release
    roles = (Role("compared", Comparison, many=True),)
    section = ReleaseSection

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        rules = view.section(ReleaseSection).rules
        if len(set(rules)) != len(rules):
            yield view.refused("rules", seen=", ".join(rules), expected="each rule once")

    def request(self, asked: StageContext) -> ReleaseSpec:
        return ReleaseSpec(
            comparisons=[_compared(each) for each in asked.all("compared")],
            logic_version=asked.logic_version,
            **_limits(asked.view),
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        return {str(rule): limit for rule, limit in _limits(asked.view).items()}

    def amount(self, view: View, pages: int) -> float:
        return 1.0

    def summary(self, work: Any) -> str:
        if work.standing == STANDING_REFUSED:
            return f"refused: {work.reason}"
        passed = ", ".join(f"{each.rule} {each.seen:.3g} (limit {each.limit:.3g}{_of(each)})" for each in work.findings)
        who = "simulated judgements" if work.simulated else "judgements of people"
        also = " and simulated judgements" if work.mixed else ""
        return f"{work.checkpoint} passed by {who}{also}: {passed}"


def _of(finding: Any) -> str:
    """The number of judgements of a win rate, and which try it is."""
    return f", n {finding.judgements:,}, try {finding.try_number}" if finding.judgements else ""


def _limits(view: View) -> dict[Rule, float]:
    """The limit of each rule that is applied."""
    section = view.section(ReleaseSection)
    return {rule: getattr(section, rule) for rule in sorted(section.rules)}


def _compared(result: Result) -> ReleasedComparison:
    return ReleasedComparison(
        name=resource_of(Comparison, result), manifest_key=result.manifest_key, content_digest=result.content_digest
    )


STAGE = ReleaseStage()
