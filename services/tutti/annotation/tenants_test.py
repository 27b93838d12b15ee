"""Campaigns of another tenant, and what was made of their judgements: for a caller they do not exist."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.protobuf.message import Message

from tutti.annotation.conftest import Desks, spec
from tutti.annotation.publishing.versions_test import publish, review
from tutti.annotation.service_test import preferences
from tutti.chassis.errors import NotFound, Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.chassis.identity.principal import attributed
from tutti.contracts.admin.v1 import WatchRequest
from tutti.contracts.admin.v1.stubs import AdminStub
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_PUBLISHED,
    VERDICT_KEPT,
    AnswerMessageRequest,
    CloneCampaignRequest,
    CloseCampaignRequest,
    CreateCampaignRequest,
    CreateDemonstrationsRequest,
    CreatePreferencesRequest,
    DemonstrationsSpec,
    EraseAnnotatorRequest,
    ExtendCampaignRequest,
    FindDemonstrationsRequest,
    InviteAnnotatorRequest,
    ListAnnotatorsRequest,
    ListGuidelinesRequest,
    ListMessagesRequest,
    ListWrittenDemonstrationsRequest,
    PauseCampaignRequest,
    PreferencesSpec,
    ReadDemonstrationsRequest,
    ReadGuidelineRequest,
    ReadJudgementsRequest,
    ReadPreferencesRequest,
    RequalifyAnnotatorRequest,
    ResumeCampaignRequest,
    RetractAnnotatorRequest,
    RetractGuidelineRequest,
    ReviewDemonstrationRequest,
    SettlePairRequest,
    UpdateGuidelineRequest,
    WeighAnnotatorRequest,
)
from tutti.contracts.annotation.v1.annotation_pb2 import DESCRIPTOR
from tutti.contracts.annotation.v1.stubs import AnnotationServiceStub
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest

NAME, OTHER, OWN = "campaigns/a", "tenants/other", "tenants/default"
FITTED, WRITTEN = "preferences/one", "demonstrations/first"
ASKS: dict[str, Message] = {
    "GetCampaign": GetRequest(name=NAME),
    "ReadGuideline": ReadGuidelineRequest(name=NAME),
    "ListAnnotators": ListAnnotatorsRequest(campaign=NAME),
    "ListGuidelines": ListGuidelinesRequest(campaign=NAME),
    "ListMessages": ListMessagesRequest(campaign=NAME),
    "ReadJudgements": ReadJudgementsRequest(campaign=NAME),
    "ListWrittenDemonstrations": ListWrittenDemonstrationsRequest(campaign=NAME),
    "FindDemonstrations": FindDemonstrationsRequest(campaign=NAME),
    "GetPreferences": GetRequest(name=FITTED),
    "ReadPreferences": ReadPreferencesRequest(name=FITTED),
    "CancelPreferences": CancelRequest(name=FITTED),
    "GetDemonstrations": GetRequest(name=WRITTEN),
    "ReadDemonstrations": ReadDemonstrationsRequest(name=WRITTEN),
    "CancelDemonstrations": CancelRequest(name=WRITTEN),
    "CloseCampaign": CloseCampaignRequest(name=NAME),
    "CancelCampaign": CancelRequest(name=NAME),
}
"""Calls that the tenant itself may make of what is published."""
CHANGES: dict[str, Message] = {
    "PauseCampaign": PauseCampaignRequest(name=NAME),
    "ResumeCampaign": ResumeCampaignRequest(name=NAME),
    "ExtendCampaign": ExtendCampaignRequest(name=NAME, most=3),
    "CloneCampaign": CloneCampaignRequest(name="campaigns/clone", source=NAME),
    "UpdateGuideline": UpdateGuidelineRequest(name=NAME, text="Other words."),
    "InviteAnnotator": InviteAnnotatorRequest(campaign=NAME, user="users/eve"),
    "RetractAnnotator": RetractAnnotatorRequest(campaign=NAME, key="ada", reason="no reason"),
    "RetractGuideline": RetractGuidelineRequest(campaign=NAME, version="x", reason="no reason"),
    "SettlePair": SettlePairRequest(campaign=NAME, pair="x", verdict=VERDICT_KEPT),
    "EraseAnnotator": EraseAnnotatorRequest(campaign=NAME, key="ada"),
    "AnswerMessage": AnswerMessageRequest(campaign=NAME, id="x", text="no answer"),
    "RequalifyAnnotator": RequalifyAnnotatorRequest(campaign=NAME, key="ada"),
    "WeighAnnotator": WeighAnnotatorRequest(campaign=NAME, key="ada", weight=0.5, reason="no reason"),
    "ReviewDemonstration": ReviewDemonstrationRequest(campaign=NAME, id="x", accepted=True),
}
ELSEWHERE = {"ListCampaigns", "ListPreferences", "ListDemonstrations"}
CREATES = {"CreateCampaign", "CreatePreferences", "CreateDemonstrations"}


@contextmanager
def of(tenant: str) -> Iterator[None]:
    with caused_by(Cause(principal=attributed("users/eve", tenant))):
        yield


def answered(desks: Desks, tenant: str, method: str, request: Message) -> Any:
    stub = AnnotationServiceStub(desks.world.channel("annotation", Role.ENGINEER))
    with of(tenant):
        return desks.world.insist(lambda: getattr(stub, method)(request))


@pytest.fixture
def published(desks: Desks) -> Desks:
    desks.create(spec(pairs=4))
    desks.invite("ada", "bob")
    written = desks.said("ada", desks.lease("ada")[0]["id"], demonstration="a better answer")
    assert desks.deliver("ada", written)["refused"] == []
    desks.judge_all("ada")
    desks.judge_all("bob")
    desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    review(desks, str(written["id"]))
    preferences(desks, FITTED.partition("/")[2])
    publish(desks)
    return desks


def creates(desks: Desks) -> dict[str, Message]:
    """Requests that name the campaign, as the tenant itself could send them."""
    result = desks.get().result
    judged = PreferencesSpec(campaign=NAME, manifest_key=result.manifest_key, content_digest=result.content_digest)
    made = answered(desks, OWN, "GetDemonstrations", GetRequest(name=WRITTEN))
    accepted = DemonstrationsSpec(accepted=made.spec.accepted)
    return {
        "CreatePreferences": CreatePreferencesRequest(name="preferences/two", request_id="two", spec=judged),
        "CreateDemonstrations": CreateDemonstrationsRequest(name=WRITTEN, request_id=WRITTEN, spec=accepted),
    }


def test_every_call_is_tried_by_another_tenant() -> None:
    methods = {each.name for each in DESCRIPTOR.services_by_name["AnnotationService"].methods}
    assert methods == {*ASKS, *CHANGES, *ELSEWHERE, *CREATES}


def test_another_tenant_neither_sees_nor_reads_nor_changes_them(published: Desks) -> None:
    for method, request in {**ASKS, **CHANGES, **creates(published)}.items():
        with pytest.raises(NotFound):
            answered(published, OTHER, method, request)
    for method, request in {**ASKS, **creates(published)}.items():
        assert answered(published, OWN, method, request) is not None


def test_another_tenant_does_not_watch_them(published: Desks) -> None:
    stub = AdminStub(published.world.channel("annotation", Role.SERVICE))
    for name in (NAME, FITTED, WRITTEN):
        with of(OTHER), pytest.raises(NotFound):
            next(stub.Watch(WatchRequest(name=name)))
        with of(OWN):
            assert next(stub.Watch(WatchRequest(name=name))).name == name


def test_the_same_request_of_another_tenant_does_not_return_its_campaign(desks: Desks) -> None:
    request = CreateCampaignRequest(name=NAME, request_id="a", spec=spec())
    made = answered(desks, OWN, "CreateCampaign", request)
    assert answered(desks, OWN, "CreateCampaign", request) == made
    with pytest.raises(Refused) as caught:
        answered(desks, OTHER, "CreateCampaign", request)
    assert caught.value.reason == "NAME_TAKEN"


def test_lists_have_those_of_the_callers_tenant(published: Desks) -> None:
    def listed(tenant: str) -> list[str]:
        found = {method: answered(published, tenant, method, ListRequest()) for method in sorted(ELSEWHERE)}
        return [each.name for method, page in found.items() for each in getattr(page, method[4:].lower())]

    assert listed(OWN) == [NAME, WRITTEN, FITTED]
    assert listed(OTHER) == []
