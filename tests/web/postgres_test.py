"""Sessions and the audit trail in a server database: the same statements in another dialect."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.web.hosted import Visitor, hosted
from tutti.annotation.campaigns.crowds_test import crowd
from tutti.annotation.conftest import Desks
from tutti.annotation.service import build as build_annotation
from tutti.chassis.store import audit
from tutti.client import Client
from tutti.contracts.access.v1 import CreateUserRequest, DisableUserRequest
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_PUBLISHED,
    Campaign,
    CreateCampaignRequest,
)
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.options.v1 import ROLE_ENGINEER
from tutti.pipeline.service import build
from tutti.simulation import Simulation


def test_a_user_is_invited_logs_in_and_is_disabled(tmp_path: Path, postgres_url: str, unique: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{unique}"')
    url = urlsplit(postgres_url)._replace(path=f"/{unique}").geturl()
    with hosted(tmp_path, f"database.url={url}", builds={"pipeline": build}) as served, served.client() as client:
        user = client.access.CreateUser(CreateUserRequest(display_name="Ada", roles=[ROLE_ENGINEER])).user.name
        assert client.access.ListUsers(ListRequest()).display_names[user] == "Ada"
        visitor, link = Visitor(served.url), served.link(user)
        assert [visitor.log_in(link).status, Visitor(served.url).log_in(link).status] == [303, 409]
        assert visitor.get("/runs").status == 200
        client.access.DisableUser(DisableUserRequest(name=user))
        assert visitor.get("/runs").status == 401
        records = served.running("access").host.units.run(lambda unit: list(audit.newest(unit, 20)))
    assert {(each.outcome, each.reason or each.action, each.user) for each in records} >= {
        (audit.CHANGED, "log in", user),
        (audit.CHANGED, "issue a login link", "users/operator"),
        (audit.REFUSED, "LINK_REFUSED", ""),
        (audit.REFUSED, "USER_DISABLED", user),
    }


def test_a_simulated_crowd_judges_a_campaign_to_its_end(tmp_path: Path, postgres_url: str, unique: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{unique}"')
    url = urlsplit(postgres_url)._replace(path=f"/{unique}").geturl()
    with hosted(tmp_path, f"database.url={url}", builds={"annotation": build_annotation}) as served:
        with served.client() as client:
            client.annotation.CreateCampaign(CreateCampaignRequest(name="campaigns/a", spec=crowd()))
            digests = [found.result.content_digest for found in until_published(client)]
        with Simulation(0, builds={"annotation": build_annotation}, rates={}) as world:
            desks = Desks(world)
            desks.create(crowd())
            embedded = desks.until(lambda found: found.state == CAMPAIGN_STATE_PUBLISHED)
    assert digests[-1] == embedded.result.content_digest


def until_published(client: Client) -> Iterator[Campaign]:
    for found in client.watch("campaigns/a"):
        assert isinstance(found, Campaign)
        assert found.state != CAMPAIGN_STATE_FAILED, found.reason
        yield found
        if found.state == CAMPAIGN_STATE_PUBLISHED:
            return
