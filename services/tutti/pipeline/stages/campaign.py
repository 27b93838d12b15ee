"""The stage `campaign`: pairs of answers are judged, by people or by a simulated crowd, until there are enough."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from tutti.chassis.config.recipetext import Part, Real
from tutti.chassis.errors import InvalidField
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_CANCELLED,
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_PUBLISHED,
    CROWD_PEOPLE,
    CROWD_SIMULATED,
    AnswerSource,
    Axis,
    Campaign,
    CampaignSpec,
    Overlap,
    Qualification,
    SimulatedCrowd,
)
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, STATE_RUNNING
from tutti.contracts.sampling.v1 import Sample
from tutti.corpus.conversations.conversationset import Lines
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import Role, StageContext, StageDef, resource_of
from tutti.pipeline.recipes.crowdpart import CrowdPart
from tutti.pipeline.recipes.instance import Keys
from tutti.pipeline.recipes.keytypes import LONGEST, Count, Positive, Seed
from tutti.pipeline.recipes.values import Result, WorkStatus
from tutti.pipeline.recipes.view import View
from tutti.records.manifest import Manifest

STATES = {
    CAMPAIGN_STATE_PUBLISHED: STATE_DONE,
    CAMPAIGN_STATE_FAILED: STATE_FAILED,
    CAMPAIGN_STATE_CANCELLED: STATE_CANCELLED,
}
HOUR = 3600


class OverlapPart(Part):
    least: Positive = Field(default=1, description="minimum number of judgements per pair, by different annotators")
    most: Positive | None = Field(default=None, description="maximum number of judgements per pair; default: least")


class QualificationPart(Part):
    pairs: Count = Field(
        default=5, description="number of consecutive qualifying pairs that count; 0: no qualification"
    )
    right: Count = Field(default=4, description="minimum number of right answers among them")


class CampaignSection(Part):
    guideline: str = Field(
        min_length=1, max_length=LONGEST, description="file (.md or .txt) with the guideline, or its text"
    )
    axes: list[str] = Field(min_length=1, max_length=8, description="questions about each pair, such as helpful")
    rules: dict[str, str] = Field(
        default_factory=dict, max_length=8, description="by axis: rule to show below each pair"
    )
    crowd: CrowdPart | None = Field(default=None, description="simulated annotators; default: people judge")
    judgements: Count = Field(
        default=0, description="number of judgements to collect, limited by overlap; 0: least for each pair"
    )
    overlap: OverlapPart = OverlapPart()
    controls: Real = Field(default=0.1, ge=0, lt=0.5, description="share of control pairs")
    filler: str = Field(
        default="",
        max_length=1000,
        description="neutral text to append to an answer in control pairs; empty: an English one",
    )
    warning: str | None = Field(
        default=None, max_length=1000, description="content warning that annotators see before they begin"
    )
    qualification: QualificationPart = QualificationPart()
    qualifying: str = Field(
        default="",
        max_length=LONGEST,
        description="file (.jsonl) of pairs with `prompt`, `answers`, `better` and `explanation`, or its text",
    )
    deadline_hours: Real = Field(
        default=0.0,
        ge=0,
        le=100_000,
        description="hours after which an open campaign closes with its judgements; 0: never",
    )
    seed: Seed = Field(default=0, description="seed of all random choices")


class CampaignStage(StageDef):
    name = "campaign"
    work = Campaign
    roles = (Role("answers", Sample, many=True),)
    section = CampaignSection
    spec_keys: ClassVar[Mapping[str, str]] = {
        "simulated.crowd": "crowd.simulated",
        "simulated.annotators": "crowd.annotators",
    }
    revisable = True

    def embedded(self, section: CampaignSection, keys: Keys, text_of: Callable[[str, str], str]) -> CampaignSection:
        crowd = section.crowd
        if crowd is not None:
            crowd = crowd.model_copy(update={"simulated": text_of(keys.of("crowd.simulated"), crowd.simulated)})
        texts = {key: text_of(keys.of(key), getattr(section, key)) for key in ("guideline", "qualifying")}
        return section.model_copy(update={**texts, "crowd": crowd})

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        section = _section(view)
        if unknown := sorted(set(section.rules) - set(section.axes)):
            yield view.refused("rules", seen=unknown[0], expected=f"one of the axes: {', '.join(section.axes)}")

    def request(self, asked: StageContext) -> CampaignSpec:
        section = _section(asked.view)
        spec = CampaignSpec(
            answers=[_source(each) for each in asked.all("answers")],
            guideline=section.guideline,
            axes=[Axis(name=name, rule=section.rules.get(name, "")) for name in section.axes],
            crowd=CROWD_SIMULATED if section.crowd else CROWD_PEOPLE,
            overlap=Overlap(least=section.overlap.least, most=section.overlap.most or 0),
            controls=section.controls,
            judgements=section.judgements,
            deadline_seconds=round(section.deadline_hours * HOUR),
            seed=section.seed,
            qualification=Qualification(pairs=section.qualification.pairs, right=section.qualification.right),
            qualifying=section.qualifying,
            filler=section.filler,
            warning=section.warning or "",
            logic_version=asked.logic_version,
        )
        if section.crowd is not None:
            spec.simulated.CopyFrom(SimulatedCrowd(annotators=section.crowd.annotators, crowd=section.crowd.simulated))
        return spec

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        return _section(asked.view).model_dump(exclude={"deadline_hours"}, exclude_defaults=True)

    def questions(self, view: View) -> Iterator[View]:
        yield view

    def seen(self, work: Any) -> WorkStatus:
        result = Result(work.name, work.result.manifest_key, work.result.content_digest)
        done = work.state == CAMPAIGN_STATE_PUBLISHED
        return WorkStatus(work.name, STATES.get(work.state, STATE_RUNNING), work.reason, result if done else None)

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        for field in ("pairs", "lines"):
            yield Expected.lines(Lines.of(manifest, field))

    def unforeseeable(self, view: View) -> str:
        return "" if _section(view).crowd else "people judge, as fast as they come"

    def summary(self, work: Any) -> str:
        crowd = "simulated annotators" if work.spec.crowd == CROWD_SIMULATED else "annotators"
        ended = f"; {work.reason}" if work.reason else ""
        return f"{work.judgements:,} judgements of {work.pairs:,} pairs by {work.annotators:,} {crowd}{ended}"


def _source(result: Result) -> AnswerSource:
    return AnswerSource(
        sample=resource_of(Sample, result), manifest_key=result.manifest_key, content_digest=result.content_digest
    )


def _section(view: View) -> CampaignSection:
    return view.section(CampaignSection)


STAGE = CampaignStage()
