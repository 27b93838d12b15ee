"""The stage `demonstrations`: answers that annotators of campaigns wrote and others accepted become a version."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tutti.chassis.config.recipetext import Part
from tutti.chassis.service import Host
from tutti.contracts.annotation.v1 import (
    AcceptedDemonstrations,
    Campaign,
    Demonstrations,
    DemonstrationsSpec,
    FindDemonstrationsRequest,
)
from tutti.contracts.annotation.v1.stubs import AnnotationServiceStub
from tutti.corpus.conversations.conversationset import ConversationsBody
from tutti.pipeline.definitions.blobchecks import Checked, Expected
from tutti.pipeline.definitions.definition import Role, StageContext, StageDef, resource_of
from tutti.pipeline.recipes.values import Inputs, Result
from tutti.pipeline.recipes.view import View
from tutti.records.counts import counted
from tutti.records.manifest import Manifest

FIND_SECONDS = 60.0


class DemonstrationsSection(Part):
    """It has no keys of its own."""


class DemonstrationsStage(StageDef):
    """Judgements do not decide the version: what is accepted today does."""

    name = "demonstrations"
    work = Demonstrations
    roles = (
        Role("judged", Campaign, many=True, decides=False),
        Role("accepted", Campaign, many=True, required=False, given=False),
    )
    section = DemonstrationsSection

    def request(self, asked: StageContext) -> DemonstrationsSpec:
        accepted = asked.all("accepted") or asked.all("judged")
        return DemonstrationsSpec(accepted=map(_accepted, accepted), logic_version=asked.logic_version)

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        return {}

    def today(self, asked: StageContext, host: Host) -> Inputs:
        annotation = AnnotationServiceStub(host.channel("annotation"))

        def today(judged: Result) -> Result:
            request = FindDemonstrationsRequest(campaign=resource_of(Campaign, judged))
            found = annotation.FindDemonstrations(request, timeout=FIND_SECONDS).accepted
            return replace(judged, manifest_key=found.manifest_key, content_digest=found.content_digest)

        return {**asked.inputs, "accepted": tuple(map(today, asked.all("judged")))}

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        yield Expected.lines(ConversationsBody.read(manifest).lines)

    def amount(self, view: View, pages: int) -> float:
        return 1.0

    def summary(self, work: Any) -> str:
        return f"{counted(work.conversations, 'demonstration')} ({counted(work.duplicates, 'duplicate')})"


def _accepted(result: Result) -> AcceptedDemonstrations:
    return AcceptedDemonstrations(
        campaign=resource_of(Campaign, result),
        manifest_key=result.manifest_key,
        content_digest=result.content_digest,
    )


STAGE = DemonstrationsStage()
