"""Tenants, with tokens of users over gRPC: what one may not get it does not watch, trace, export or tail either."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.web.annotation_test import opened
from tests.web.hosted import Hosted, hosted
from tutti.annotation.conftest import spec
from tutti.annotation.service import build as build_annotation
from tutti.chassis.demo_test import eventually
from tutti.chassis.errors import NotFound, PermissionDenied
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.methods import methods_of
from tutti.chassis.rpc.references import rule_of
from tutti.chassis.rpc.usertokens import PREFIX
from tutti.client import Client, connect
from tutti.contracts.access.v1 import CreateUserRequest, IssueTokenRequest
from tutti.contracts.admin.v1 import ExportRequest, TailEventsRequest, WatchRequest
from tutti.contracts.admin.v1.admin_pb2 import DESCRIPTOR as ADMIN
from tutti.contracts.annotation.v1 import AnswerSource, Campaign, CampaignSpec, Preferences, PreferencesSpec
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.lineage.v1 import DIRECTION_DOWN, DIRECTION_UP, TraceRequest
from tutti.contracts.options.v1 import ROLE_ENGINEER
from tutti.contracts.sampling.v1 import Sample
from tutti.lineage.service import build as build_lineage
from tutti.pipeline.service import build as build_pipeline
from tutti.sampling.service import build as build_sampling
from tutti.web.tokens import digest, new_token

BUILDS = {
    "annotation": build_annotation,
    "lineage": build_lineage,
    "pipeline": build_pipeline,
    "sampling": build_sampling,
}
CAMPAIGN, SAMPLE, FITTED = "campaigns/a", "samples/s", "preferences/p"
OWN, OTHER = "tenants/default", "tenants/other"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform"), builds=BUILDS) as found:
        opened(found, spec(pairs=2))
        found.plant("sampling", Sample(name=SAMPLE))
        judged = CampaignSpec(answers=[AnswerSource(sample=SAMPLE)])
        found.plant("annotation", Campaign(name="campaigns/b", tenant=OWN, spec=judged))
        found.plant("annotation", Preferences(name=FITTED, spec=PreferencesSpec(campaign="campaigns/b")))
        yield found


def of(served: Hosted, tenant: str) -> Client:
    """A client with a token of an engineer of a tenant."""
    token = PREFIX + new_token()
    with served.client() as operator:
        created = CreateUserRequest(display_name="Eve", roles=[ROLE_ENGINEER], tenant=tenant)
        user = operator.access.CreateUser(created).user.name
        operator.access.IssueToken(IssueTokenRequest(user=user, token_digest=digest(token)))
    return connect(served.data_dir.path, token=token)


@pytest.fixture(scope="module")
def eve(served: Hosted) -> Iterator[Client]:
    with of(served, OTHER) as found:
        yield found


@pytest.fixture(scope="module")
def ada(served: Hosted) -> Iterator[Client]:
    with of(served, OWN) as found:
        yield found


def traced(client: Client, name: str, *, up: bool) -> list[str]:
    request = TraceRequest(name=name, direction=DIRECTION_UP if up else DIRECTION_DOWN)
    return sorted(vertex.name for vertex in client.lineage.Trace(request).vertices)


def test_a_campaign_of_another_tenant_is_not_watched(ada: Client, eve: Client) -> None:
    request = WatchRequest(name=CAMPAIGN)
    assert next(ada.admin.Watch(request, timeout=20)).name == CAMPAIGN
    for name in (CAMPAIGN, FITTED):
        with pytest.raises(NotFound):
            next(eve.admin.Watch(WatchRequest(name=name), timeout=20))
        with pytest.raises(NotFound):
            eve.annotation.GetPreferences(GetRequest(name=FITTED))


def test_a_campaign_of_another_tenant_is_not_traced(served: Hosted, ada: Client, eve: Client) -> None:
    whole = [FITTED, "campaigns/b", SAMPLE]
    eventually(lambda: traced(ada, FITTED, up=True) == sorted(whole))
    assert traced(ada, SAMPLE, up=False) == sorted(whole)
    assert traced(eve, SAMPLE, up=False) == [SAMPLE]
    for name in (FITTED, "campaigns/b"):
        with pytest.raises(NotFound):
            traced(eve, name, up=True)


def test_a_campaign_of_another_tenant_is_neither_exported_nor_in_the_events(ada: Client, eve: Client) -> None:
    def exported(client: Client) -> int:
        return len(list(client.admin.Export(ExportRequest(service="annotation"))))

    def tailed(client: Client, resource: str = "") -> set[str]:
        request = TailEventsRequest(service="annotation", resource=resource)
        return {event.subject for event in client.admin.TailEvents(request)}

    assert exported(ada) == 3
    assert exported(eve) == 0
    assert tailed(ada) == {CAMPAIGN, "campaigns/b", FITTED}
    assert tailed(eve) == tailed(eve, CAMPAIGN) == set()
    assert list(eve.annotation.ListCampaigns(ListRequest()).campaigns) == []


def test_every_name_in_a_request_to_the_administration_is_tried_for_another_tenant(ada: Client, eve: Client) -> None:
    calls: dict[str, Callable[[Client], object]] = {
        "Watch.name": lambda client: next(client.admin.Watch(WatchRequest(name=CAMPAIGN), timeout=20)),
        "TailEvents.resource": lambda client: next(
            client.admin.TailEvents(TailEventsRequest(service="annotation", resource=CAMPAIGN)), None
        ),
    }
    theirs = [each for each in methods_of(ADMIN.services_by_name["Admin"]) if Role.ENGINEER in each.roles]
    fields: list[tuple[str, Any]] = [(each.name, field) for each in theirs for field in each.request.DESCRIPTOR.fields]
    assert {f"{name}.{field.name}" for name, field in fields if rule_of(field) is not None} == calls.keys()
    for path, call in calls.items():
        assert call(ada) is not None, path
        try:
            answer = call(eve)
        except NotFound:
            answer = None
        assert answer is None, path


def test_users_are_read_by_those_who_may_get_them_in_whatever_way(served: Hosted, ada: Client) -> None:
    with served.client() as operator:
        user = operator.access.ListUsers(ListRequest()).users[0].name
        assert next(operator.admin.Watch(WatchRequest(name=user), timeout=20)).name == user
        assert user in {event.subject for event in operator.admin.TailEvents(TailEventsRequest(service="access"))}
    with connect(served.data_dir.path, role=Role.AGENT) as agent:
        for client in (ada, agent):
            with pytest.raises(PermissionDenied):
                next(client.admin.Watch(WatchRequest(name=user), timeout=20))
    assert list(ada.admin.TailEvents(TailEventsRequest(service="access"))) == []
    assert list(ada.admin.TailEvents(TailEventsRequest(service="access", resource=user))) == []
