"""Campaigns of another tenant, and what was made of their judgements: for a caller they do not exist."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tutti.annotation.conftest import Desks, spec
from tutti.annotation.service_test import preferences
from tutti.chassis.errors import NotFound
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.chassis.identity.principal import attributed
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_PUBLISHED,
    CreatePreferencesRequest,
    PreferencesSpec,
    ReadPreferencesRequest,
)
from tutti.contracts.annotation.v1.stubs import AnnotationServiceStub
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest

CAMPAIGN, FITTED = GetRequest(name="campaigns/a"), GetRequest(name="preferences/one")
Told = Callable[[AnnotationServiceStub], Any]


@contextmanager
def of(tenant: str) -> Iterator[None]:
    with caused_by(Cause(principal=attributed("users/eve", tenant))):
        yield


def answered(desks: Desks, tenant: str, ask: Told) -> Any:
    stub = AnnotationServiceStub(desks.world.channel("annotation", Role.SERVICE))
    with of(tenant):
        return desks.world.insist(lambda: ask(stub))


@pytest.fixture
def fitted(desks: Desks) -> Desks:
    desks.create(spec(pairs=4))
    desks.invite("ada", "bob")
    desks.judge_all("ada")
    desks.judge_all("bob")
    desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    preferences(desks, "one")
    return desks


def again(desks: Desks) -> CreatePreferencesRequest:
    result = desks.get().result
    judged = PreferencesSpec(
        campaign="campaigns/a", manifest_key=result.manifest_key, content_digest=result.content_digest
    )
    return CreatePreferencesRequest(name="preferences/two", request_id="two", spec=judged)


def test_another_tenant_neither_sees_nor_reads_nor_changes_them(fitted: Desks) -> None:
    request = again(fitted)
    asks: list[Told] = [
        lambda stub: stub.GetCampaign(CAMPAIGN),
        lambda stub: stub.GetPreferences(FITTED),
        lambda stub: stub.ReadPreferences(ReadPreferencesRequest(name=FITTED.name)),
        lambda stub: stub.CancelPreferences(CancelRequest(name=FITTED.name)),
        lambda stub: stub.CreatePreferences(request),
    ]
    for ask in asks:
        with pytest.raises(NotFound):
            answered(fitted, "tenants/other", ask)
        assert answered(fitted, "tenants/default", ask) is not None


def test_lists_have_those_of_the_callers_tenant(fitted: Desks) -> None:
    def listed(tenant: str) -> list[str]:
        campaigns = answered(fitted, tenant, lambda stub: stub.ListCampaigns(ListRequest())).campaigns
        fits = answered(fitted, tenant, lambda stub: stub.ListPreferences(ListRequest())).preferences
        return [each.name for each in (*campaigns, *fits)]

    assert listed("tenants/default") == [CAMPAIGN.name, FITTED.name]
    assert listed("tenants/other") == []
