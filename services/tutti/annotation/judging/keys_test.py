"""Keys of what a tenant published, in requests of another one: knowing a key is no permission."""

from collections.abc import Mapping

import pytest
from google.protobuf.message import Message

from tutti.annotation.conftest import Desks
from tutti.annotation.tenants_test import NAME, OTHER, OWN, answered, published
from tutti.chassis.errors import NotFound
from tutti.contracts.annotation.v1 import (
    CreateDemonstrationsRequest,
    CreatePreferencesRequest,
    DemonstrationsSpec,
    FindDemonstrationsRequest,
    JudgedCampaign,
    PreferencesSpec,
)

__all__ = ["published"]


def stolen(desks: Desks, campaign: str) -> Mapping[str, Message]:
    """Requests with the keys of published results, under the name of a campaign."""
    result = desks.get().result
    found = answered(desks, OWN, "FindDemonstrations", FindDemonstrationsRequest(campaign=NAME)).accepted
    found.campaign = campaign
    spec = PreferencesSpec(campaign=campaign, manifest_key=result.manifest_key, content_digest=result.content_digest)
    others = PreferencesSpec(campaign="campaigns/theirs", manifest_key="annotation/manifests/x.json")
    others.content_digest = "blake3:x"
    others.others.append(
        JudgedCampaign(campaign=campaign, manifest_key=result.manifest_key, content_digest=result.content_digest)
    )
    return {
        "CreatePreferences": CreatePreferencesRequest(name="preferences/s", request_id="s", spec=spec),
        "CreateDemonstrations": CreateDemonstrationsRequest(
            name="demonstrations/s", request_id="s", spec=DemonstrationsSpec(accepted=[found])
        ),
        "CreatePreferences of several": CreatePreferencesRequest(name="preferences/t", request_id="t", spec=others),
    }


@pytest.mark.parametrize("campaign", ["campaigns/unknown", NAME])
def test_a_key_is_no_permission_under_whatever_name(published: Desks, campaign: str) -> None:
    for method, request in stolen(published, campaign).items():
        with pytest.raises(NotFound):
            answered(published, OTHER, method.partition(" ")[0], request)


def test_a_campaign_that_nobody_has_does_not_exist(published: Desks) -> None:
    request = stolen(published, "campaigns/unknown")["CreatePreferences"]
    with pytest.raises(NotFound):
        answered(published, OWN, "CreatePreferences", request)


def test_a_key_that_nobody_published_does_not_exist(published: Desks) -> None:
    request = stolen(published, NAME)["CreatePreferences"]
    assert isinstance(request, CreatePreferencesRequest)
    request.spec.manifest_key = "annotation/manifests/unknown.json"
    with pytest.raises(NotFound):
        answered(published, OWN, "CreatePreferences", request)
