"""The stage `comparison`: judges the answers of a candidate against those of a baseline."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pydantic import Field

from tutti.chassis.config.recipetext import Part
from tutti.chassis.errors import InvalidField
from tutti.contracts.annotation.v1 import Campaign
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.evaluation.v1 import ComparedReward, ComparedSample, Comparison, ComparisonSpec, JudgedSet
from tutti.contracts.sampling.v1 import Sample
from tutti.corpus.conversations.conversationset import Lines
from tutti.judgements.intervals import Proportion
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import Role, StageContext, StageDef, resource_of
from tutti.pipeline.recipes.crowdpart import CrowdPart
from tutti.pipeline.recipes.instance import Keys
from tutti.pipeline.recipes.keytypes import Positive, Seed
from tutti.pipeline.recipes.values import Result
from tutti.pipeline.recipes.view import View
from tutti.records.manifest import Manifest

JUDGED = "judged"


class ComparisonSection(Part):
    crowd: CrowdPart | None = Field(default=None, description="simulated annotators, if no campaign judged")
    overlap: Positive = Field(default=3, description="annotators per pair")
    seed: Seed = Field(default=0, description="seed of the simulated annotators and their judgements")
    axis: str = Field(default="", description="axis of the campaign that judged; default: its first one")


class ComparisonStage(StageDef):
    name = "comparison"
    work = Comparison
    roles = (
        Role("baseline", Sample),
        Role("candidate", Sample),
        Role("reward", Checkpoint, required=False),
        Role(JUDGED, Campaign, required=False),
    )
    section = ComparisonSection

    def embedded(self, section: ComparisonSection, keys: Keys, text_of: Callable[[str, str], str]) -> ComparisonSection:
        if section.crowd is None:
            return section
        text = text_of(keys.of("crowd.simulated"), section.crowd.simulated)
        return section.model_copy(update={"crowd": section.crowd.model_copy(update={"simulated": text})})

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        section, given = view.section(ComparisonSection), JUDGED in filled
        if (section.crowd is not None) == given:
            seen = "both a crowd and a campaign" if given else "nothing"
            expected = "one that judges: a simulated crowd, or a campaign as `from: {judged: …}`"
            yield view.refused("crowd", seen=seen, expected=expected)
        elif section.crowd is None:
            return
        elif section.axis:
            yield view.refused("axis", seen=section.axis, expected="nothing: a simulated crowd has no axes")
        elif section.overlap > section.crowd.annotators:
            expected = f"at most {view.key('crowd.annotators')} ({section.crowd.annotators})"
            yield view.refused("overlap", seen=section.overlap, expected=expected)

    def request(self, asked: StageContext) -> ComparisonSpec:
        section = asked.view.section(ComparisonSection)
        spec = ComparisonSpec(
            baseline=_compared(asked.one("baseline")),
            candidate=_compared(asked.one("candidate")),
            reward=_reward(asked.get("reward")),
            judged=_judged(asked.get(JUDGED)),
            axis=section.axis,
            logic_version=asked.logic_version,
        )
        if section.crowd is not None:
            spec.crowd, spec.annotators = section.crowd.simulated, section.crowd.annotators
            spec.overlap, spec.seed = section.overlap, section.seed
        return spec

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        section = asked.view.section(ComparisonSection)
        judged_by = {"axis"} if section.crowd is None else {"crowd", "overlap", "seed"}
        return section.model_dump(mode="json", include=judged_by)

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        yield Expected.lines(Lines.of(manifest))

    def amount(self, view: View, pages: int) -> float:
        return 1.0

    def summary(self, work: Any) -> str:
        wins = work.wins
        promised = ""
        if work.HasField("promised"):
            preferred = Proportion.of(work.preferred * work.pairs, work.pairs)
            promised = f", {work.promised:.1%} promised (of the pairs the reward model prefers {preferred})"
        apart = f", {work.divergence:.2f} nats from the baseline" if work.HasField("divergence") else ""
        who = "simulated judgements" if work.simulated else f"judgements of {work.spec.judged.campaign}"
        unjudged = f"; {work.unjudged:,} of {work.pairs:,} pairs were not judged" if work.unjudged else ""
        utility = f"; known utility {work.utilities[0]:.2f} to {work.utilities[1]:.2f}" if work.utilities else ""
        return (
            f"the candidate wins {wins.mean:.1%} ({wins.low:.1%} to {wins.high:.1%}) of {work.judgements:,} {who}"
            f"{promised}{apart}{unjudged}{utility}"
        )


def _compared(result: Result) -> ComparedSample:
    return ComparedSample(
        name=resource_of(Sample, result), manifest_key=result.manifest_key, content_digest=result.content_digest
    )


def _reward(result: Result | None) -> ComparedReward | None:
    if result is None:
        return None
    return ComparedReward(
        checkpoint=resource_of(Checkpoint, result),
        manifest_key=result.manifest_key,
        state_digest=result.content_digest,
    )


def _judged(result: Result | None) -> JudgedSet | None:
    if result is None:
        return None
    return JudgedSet(
        campaign=resource_of(Campaign, result), manifest_key=result.manifest_key, content_digest=result.content_digest
    )


STAGE = ComparisonStage()
