"""Sessions and the audit trail in a server database: the same statements in another dialect."""

from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.web.hosted import Visitor, hosted
from tutti.chassis import audit
from tutti.contracts.access.v1 import CreateUserRequest, DisableUserRequest
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.options.v1 import ROLE_ENGINEER
from tutti.pipeline.service import build


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
