"""The stage `comparison`: judges the answers of a candidate against those of a baseline."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pydantic import Field

from tutti.chassis.errors import InvalidField
from tutti.chassis.recipetext import Part
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.evaluation.v1 import ComparedReward, ComparedSample, Comparison, ComparisonSpec
from tutti.contracts.sampling.v1 import Sample
from tutti.corpus.conversationset import Lines
from tutti.corpus.manifest import Manifest
from tutti.pipeline.blobchecks import Checked, Expected
from tutti.pipeline.crowdpart import CrowdPart
from tutti.pipeline.recipe import Positive, Recipe, Seed
from tutti.pipeline.stages.definition import Asked, Role, StageDef, resource_of
from tutti.pipeline.values import Result


class ComparisonSection(Part):
    crowd: CrowdPart = Field(description="a simulated crowd")
    overlap: Positive = Field(default=3, description="annotators that judge each pair")
    seed: Seed = Field(default=0, description="of the crowd and its judgements")


class ComparisonStage(StageDef):
    name = "comparison"
    work = Comparison
    roles = (Role("baseline", Sample), Role("candidate", Sample), Role("reward", Checkpoint, required=False))
    section = ComparisonSection

    def embedded(self, section: ComparisonSection, text_of: Callable[[str, str], str]) -> ComparisonSection:
        text = text_of("crowd.simulated", section.crowd.simulated)
        return section.model_copy(update={"crowd": section.crowd.model_copy(update={"simulated": text})})

    def problems(self, recipe: Recipe, filled: Collection[str]) -> Iterator[InvalidField]:
        section = recipe.section(ComparisonSection)
        if section.overlap > section.crowd.annotators:
            expected = f"at most comparison.crowd.annotators ({section.crowd.annotators})"
            yield InvalidField("comparison.overlap", seen=section.overlap, expected=expected)

    def request(self, asked: Asked) -> ComparisonSpec:
        section = asked.recipe.section(ComparisonSection)
        return ComparisonSpec(
            baseline=_compared(asked.one("baseline")),
            candidate=_compared(asked.one("candidate")),
            crowd=section.crowd.simulated,
            annotators=section.crowd.annotators,
            overlap=section.overlap,
            seed=section.seed,
            reward=_reward(asked.get("reward")),
            logic_version=asked.logic_version,
        )

    def parameters(self, asked: Asked) -> Mapping[str, object]:
        return asked.recipe.section(ComparisonSection).model_dump(mode="json")

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        yield Expected.lines(Lines.of(manifest))

    def amount(self, recipe: Recipe, pages: int) -> float:
        return 1.0

    def summary(self, work: Any) -> str:
        wins = work.wins
        promised = f", {work.promised:.1%} promised" if work.HasField("promised") else ""
        apart = f", {work.divergence:.2f} nats from the baseline" if work.HasField("divergence") else ""
        return (
            f"the candidate wins {wins.mean:.1%} ({wins.low:.1%} to {wins.high:.1%}) of {work.judgements:,} simulated "
            f"judgements{promised}{apart}; known utility {work.utilities[0]:.2f} to {work.utilities[1]:.2f}"
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


STAGE = ComparisonStage()
