"""What access promises, in a world that crashes, repeats and reorders by seed."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from tutti.access.service import build
from tutti.chassis.errors import AlreadyExists, InvalidField, PermissionDenied, Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.simulation import Simulation
from tutti.chassis.store.unit import Unit
from tutti.contracts.access.v1 import (
    USER_STATE_ACTIVE,
    USER_STATE_DISABLED,
    USER_STATE_INVITED,
    AuthenticateRequest,
    AuthenticateResponse,
    CreateUserRequest,
    DisableUserRequest,
    IssueLinkRequest,
    OpenSessionRequest,
    User,
    Visitor,
)
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.options.v1 import ROLE_AGENT, ROLE_ENGINEER, ROLE_OPERATOR

PERSON = "Ada Example"
LINK, SESSION = "a" * 64, "b" * 64
BROWSER = Visitor(address="127.0.0.1", agent_digest="c" * 64)


@pytest.fixture(params=range(3))
def world(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    with Simulation(request.param, builds={"access": build}) as simulation:
        yield simulation


class Callers:
    """Stubs by role, whose calls are repeated until they are answered."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._stubs = {role: AccessServiceStub(world.channel("access", role)) for role in Role}

    def create_user(self, request_id: str = "r", name: str = PERSON) -> User:
        request = CreateUserRequest(request_id=request_id, display_name=name, roles=[ROLE_ENGINEER])
        return self._world.insist(lambda: self._stubs[Role.OPERATOR].CreateUser(request)).user

    def get(self, name: str) -> User:
        return self._world.insist(lambda: self._stubs[Role.OPERATOR].GetUser(GetRequest(name=name)))

    def disable(self, name: str) -> User:
        return self._world.insist(lambda: self._stubs[Role.OPERATOR].DisableUser(DisableUserRequest(name=name)))

    def link(self, user: str = "", role: Role = Role.OPERATOR, digest: str = LINK) -> str:
        request = IssueLinkRequest(link_digest=digest, user=user)
        return self._world.insist(lambda: self._stubs[role].IssueLink(request)).user

    def open(self, link: str = LINK, session: str = SESSION) -> None:
        request = OpenSessionRequest(link_digest=link, session_digest=session, visitor=BROWSER)
        self._world.insist(lambda: self._stubs[Role.SERVICE].OpenSession(request))

    def authenticate(self, session: str = SESSION) -> AuthenticateResponse:
        request = AuthenticateRequest(session_digest=session, visitor=BROWSER, action="GET /runs")
        return self._world.insist(lambda: self._stubs[Role.SERVICE].Authenticate(request))


@pytest.fixture
def callers(world: Simulation) -> Callers:
    return Callers(world)


def test_an_invited_user_logs_in_by_a_link_that_is_repeated_and_used_once(world: Simulation, callers: Callers) -> None:
    user = callers.create_user()
    assert callers.create_user() == user
    assert (user.state, list(user.roles), user.tenant) == (USER_STATE_INVITED, [ROLE_ENGINEER], "tenants/default")
    for _ in range(2):
        assert callers.link(user.name) == user.name
    for _ in range(2):  # an answer may be lost: the same request has the same effect
        callers.open()
    with pytest.raises(Refused, match="unknown, expired or used"):
        callers.open(session="d" * 64)
    answer = callers.authenticate()
    assert (answer.principal.user, list(answer.principal.roles)) == (user.name, [ROLE_ENGINEER])
    assert answer.display_name == PERSON
    assert callers.get(user.name).state == USER_STATE_ACTIVE
    world.settle()
    world.examine()
    assert world.events[User.DESCRIPTOR.full_name] == 2


def test_a_disabled_user_is_refused_with_every_session_and_link(callers: Callers) -> None:
    user = callers.create_user().name
    callers.link(user)
    callers.open()
    callers.link(user, digest="e" * 64)
    assert callers.disable(user).state == USER_STATE_DISABLED
    with pytest.raises(Refused) as refused:
        callers.authenticate()
    assert refused.value.reason == "USER_DISABLED"
    with pytest.raises(Refused):
        callers.open(link="e" * 64, session="f" * 64)
    with pytest.raises(Refused, match="is disabled"):
        callers.link(user, digest="9" * 64)


def test_a_caller_may_create_links_for_itself_and_an_operator_for_anybody(callers: Callers) -> None:
    user = callers.create_user().name
    assert callers.link(role=Role.ENGINEER) == "users/engineer"
    assert callers.link(role=Role.OPERATOR, digest="d" * 64) == "users/operator"
    with pytest.raises(PermissionDenied):
        callers.link(user, role=Role.ENGINEER, digest="e" * 64)
    with pytest.raises(PermissionDenied):
        callers.link("users/operator", role=Role.ENGINEER, digest="e" * 64)
    with pytest.raises(Refused, match="belongs to a link of users/engineer"):
        callers.link(user)
    assert list(callers.get("users/engineer").roles) == [ROLE_ENGINEER]
    assert list(callers.get("users/operator").roles) == [ROLE_OPERATOR]


def test_what_is_personal_is_in_one_table_and_no_secret_is_in_any(world: Simulation, callers: Callers) -> None:
    user = callers.create_user().name
    callers.link(user)
    callers.open()

    def rows(unit: Unit) -> dict[str, str]:
        tables = unit.tx.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars().all()
        return {table: repr(unit.tx.execute(text(f'SELECT * FROM "{table}"')).all()) for table in tables}  # noqa: S608

    told = world.peek("access", rows)
    assert [table for table, values in told.items() if PERSON in values] == ["people"]
    assert "outbox" in [table for table, values in told.items() if user in values]


def test_bad_input_is_refused_by_field(world: Simulation, callers: Callers) -> None:
    stub = AccessServiceStub(world.channel("access", Role.OPERATOR))
    with pytest.raises(InvalidField, match="display_name"):
        world.insist(lambda: stub.CreateUser(CreateUserRequest(display_name="a\nb", roles=[ROLE_ENGINEER])))
    with pytest.raises(InvalidField, match="operator, engineer or annotator"):
        world.insist(lambda: stub.CreateUser(CreateUserRequest(display_name="A", roles=[ROLE_AGENT])))
    with pytest.raises(InvalidField, match="64 hexadecimal digits"):
        callers.link(digest="a secret in plain text")
    for_years = IssueLinkRequest(link_digest=LINK, valid_seconds=10**9)
    with pytest.raises(InvalidField, match="valid_seconds"):
        world.insist(lambda: stub.IssueLink(for_years))
    callers.create_user()
    with pytest.raises(AlreadyExists):
        callers.create_user(name="Another")
    listed = world.insist(lambda: stub.ListUsers(ListRequest()))
    assert list(listed.display_names.values()) == [PERSON]
