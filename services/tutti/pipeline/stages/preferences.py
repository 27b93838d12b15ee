"""The stage `preferences`: judgements of a campaign become the probability that an answer is the better one."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from tutti.chassis.config.recipetext import Part
from tutti.contracts.annotation.v1 import Campaign, JudgedCampaign, Preferences, PreferencesSpec
from tutti.corpus.conversations.conversationset import Lines
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import Role, StageContext, StageDef, resource_of
from tutti.pipeline.recipes.view import View
from tutti.records.manifest import Manifest


class PreferencesSection(Part):
    fit: Literal["reliability@1", "plain@1", "certain@1"] = Field(
        default="reliability@1",
        description="how judgements are combined: Bradley-Terry, with or without the reliability and biases of "
        "annotators; certain@1 takes the share of the judgements of a pair as certain, as for imported labels",
    )
    axis: str = Field(default="", max_length=40, description="axis of the campaign to fit; empty: its first one")


class PreferencesStage(StageDef):
    name = "preferences"
    work = Preferences
    roles = (Role("judged", Campaign, many=True),)
    section = PreferencesSection

    def request(self, asked: StageContext) -> PreferencesSpec:
        section, (judged, *others) = _section(asked.view), asked.all("judged")
        return PreferencesSpec(
            campaign=resource_of(Campaign, judged),
            manifest_key=judged.manifest_key,
            content_digest=judged.content_digest,
            fit=section.fit,
            axis=section.axis,
            others=[
                JudgedCampaign(
                    campaign=resource_of(Campaign, each),
                    manifest_key=each.manifest_key,
                    content_digest=each.content_digest,
                )
                for each in others
            ],
            logic_version=asked.logic_version,
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        section = _section(asked.view)
        return {"fit": section.fit, **({"axis": section.axis} if section.axis else {})}

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        yield Expected.lines(Lines.of(manifest))

    def amount(self, view: View, pages: int) -> float:
        return 1.0

    def summary(self, work: Any) -> str:
        who = "simulated annotators" if work.simulated else "annotators"
        lacking = "" if work.identified else "; reliability or leanings are not identified"
        imported = "imported " if work.imported else ""
        said = f"{work.judgements:,} {imported}judgements by {work.annotators:,} {who}"
        return f"{work.pairs:,} preferences of {said}{lacking}"


def _section(view: View) -> PreferencesSection:
    return view.section(PreferencesSection)


STAGE = PreferencesStage()
