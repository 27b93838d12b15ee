"""Tokens of users, over gRPC: what somebody gets with a token ends with it, and what others got is listed."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.web.hosted import Hosted, hosted
from tutti.access.service import build
from tutti.chassis.errors import Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.usertokens import PREFIX
from tutti.client import Client, connect
from tutti.contracts.access.v1 import (
    TOKEN_KIND_INVITATION,
    TOKEN_KIND_LINK,
    TOKEN_KIND_USER,
    AuthenticateRequest,
    AuthenticateTokenRequest,
    CreateUserRequest,
    InviteNodeRequest,
    IssueLinkRequest,
    IssueTokenRequest,
    ListTokensRequest,
    OpenSessionRequest,
    RevokeTokenRequest,
    Visitor,
)
from tutti.contracts.options.v1 import ROLE_ENGINEER, ROLE_OPERATOR
from tutti.web.tokens import digest, new_token

VISITOR = Visitor(address="127.0.0.1", agent_digest="c" * 64)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform"), builds={"access": build}) as found:
        yield found


@pytest.fixture
def operator(served: Hosted) -> Iterator[Client]:
    with served.client() as found:
        yield found


def user(operator: Client, name: str) -> str:
    created = CreateUserRequest(display_name=name, roles=[ROLE_ENGINEER, ROLE_OPERATOR])
    return operator.access.CreateUser(created).user.name


def issue(client: Client, user: str = "", days: int = 0) -> tuple[str, datetime]:
    """A token, and when it expires."""
    token = PREFIX + new_token()
    asked = IssueTokenRequest(user=user, token_digest=digest(token), valid_days=days)
    return token, client.access.IssueToken(asked).expires_at.ToDatetime(UTC)


def link(client: Client, user: str = "") -> tuple[str, datetime]:
    made = new_token()
    asked = IssueLinkRequest(user=user, link_digest=digest(made), valid_seconds=3 * 24 * 3600)
    return digest(made), client.access.IssueLink(asked).expires_at.ToDatetime(UTC)


def is_valid(served: Hosted, token: str) -> bool:
    with connect(served.data_dir.path, role=Role.SERVICE) as service:
        try:
            service.access.AuthenticateToken(AuthenticateTokenRequest(token_digest=digest(token)))
        except Refused:
            return False
        return True


def opens(served: Hosted, link: str, session: str) -> bool:
    with connect(served.data_dir.path, role=Role.SERVICE) as service:
        try:
            asked = OpenSessionRequest(link_digest=link, session_digest=session, visitor=VISITOR)
            service.access.OpenSession(asked)
        except Refused:
            return False
        return True


def test_what_somebody_gets_with_a_token_expires_no_later(served: Hosted, operator: Client) -> None:
    stolen, until = issue(operator, user(operator, "Ada"), days=2)
    with connect(served.data_dir.path, token=stolen) as thief:
        for days in (0, 1, 366):
            token, expires_at = issue(thief, days=days)
            assert expires_at <= until
        assert link(thief)[1] <= until
    with connect(served.data_dir.path, token=token) as again:
        assert issue(again, days=366)[1] <= until
    assert issue(operator, days=366)[1] > until + timedelta(days=300)


def test_what_somebody_got_with_a_token_is_revoked_with_it(served: Hosted, operator: Client) -> None:
    name = user(operator, "Bob")
    stolen, _ = issue(operator, name)
    other, _ = issue(operator, name)
    with connect(served.data_dir.path, token=stolen) as thief:
        second, _ = issue(thief)
        unused, used = link(thief)[0], link(thief)[0]
    with connect(served.data_dir.path, token=second) as thief:
        third, _ = issue(thief)
    session = digest(new_token())
    assert opens(served, used, session)
    assert all(is_valid(served, each) for each in (stolen, second, third, other))
    operator.access.RevokeToken(RevokeTokenRequest(id=digest(stolen)[:16]))
    assert [is_valid(served, each) for each in (stolen, second, third, other)] == [False, False, False, True]
    assert not opens(served, unused, digest(new_token()))
    with connect(served.data_dir.path, role=Role.SERVICE) as service, pytest.raises(Refused) as caught:
        service.access.Authenticate(AuthenticateRequest(session_digest=session, visitor=VISITOR, action="GET /"))
    assert caught.value.reason == "TOKEN_REVOKED"


def test_what_others_got_lives_on_and_is_listed(served: Hosted, operator: Client) -> None:
    stolen, _ = issue(operator, user(operator, "Cy"))
    other = user(operator, "Dee")
    with connect(served.data_dir.path, token=stolen) as thief:
        second, _ = issue(thief)
        theirs = link(thief, other)[0]
        thief.access.InviteNode(InviteNodeRequest(token_digest=digest(new_token()), node="nodes/gpu-7"))
    with connect(served.data_dir.path, token=second) as thief:
        token, _ = issue(thief, other)
    revoked = operator.access.RevokeToken(RevokeTokenRequest(id=digest(stolen)[:16]))
    assert {(each.kind, each.owner) for each in revoked.issued} == {
        (TOKEN_KIND_USER, other),
        (TOKEN_KIND_LINK, other),
        (TOKEN_KIND_INVITATION, "nodes/gpu-7"),
    }
    assert is_valid(served, token)
    assert opens(served, theirs, digest(new_token()))
    listed = {each.id: each.state for each in operator.access.ListTokens(ListTokensRequest(user=other)).tokens}
    assert listed[digest(token)[:16]] == "valid"
