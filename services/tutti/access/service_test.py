"""What access promises, in a world that crashes, repeats and reorders by seed."""

from collections.abc import Iterator, Sequence

import pytest
from sqlalchemy import text

from tutti.access.service import build
from tutti.chassis.errors import AlreadyExists, InvalidField, PermissionDenied, Refused
from tutti.chassis.identity.auth import HELD, Role
from tutti.chassis.store import audit
from tutti.chassis.store.unit import Unit
from tutti.contracts.access.v1 import (
    USER_STATE_ACTIVE,
    USER_STATE_DISABLED,
    USER_STATE_INVITED,
    AuthenticateRequest,
    AuthenticateResponse,
    AuthenticateTokenRequest,
    CreateUserRequest,
    DisableUserRequest,
    ErasedUser,
    EraseUserRequest,
    InviteNodeRequest,
    IssueLinkRequest,
    JoinNodeRequest,
    ListTokensRequest,
    OpenSessionRequest,
    Principal,
    RevokeTokenRequest,
    User,
    Visitor,
)
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.options.v1 import ROLE_AGENT, ROLE_ANNOTATOR, ROLE_ENGINEER, ROLE_JOINER, ROLE_OPERATOR
from tutti.contracts.options.v1 import Role as WireRole
from tutti.simulation import Simulation

PERSON = "Ada Example"
MINUTE, HOUR, DAY = 60, 3600, 24 * 3600
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
        self._stubs = {role: AccessServiceStub(world.channel("access", role)) for role in HELD}

    def create_user(
        self, request_id: str = "r", name: str = PERSON, roles: Sequence[WireRole.ValueType] = (ROLE_ENGINEER,)
    ) -> User:
        request = CreateUserRequest(request_id=request_id, display_name=name, roles=roles)
        return self._world.insist(lambda: self._stubs[Role.OPERATOR].CreateUser(request)).user

    def get(self, name: str) -> User:
        return self._world.insist(lambda: self._stubs[Role.OPERATOR].GetUser(GetRequest(name=name)))

    def disable(self, name: str) -> User:
        return self._world.insist(lambda: self._stubs[Role.OPERATOR].DisableUser(DisableUserRequest(name=name)))

    def erase(self, name: str, *, validate_only: bool = False) -> ErasedUser:
        request = EraseUserRequest(name=name, validate_only=validate_only)
        return self._world.insist(lambda: self._stubs[Role.OPERATOR].EraseUser(request))

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


@pytest.mark.parametrize(
    ("roles", "link", "idle"),
    [
        ([ROLE_ENGINEER], MINUTE * 9, HOUR * 11),
        ([ROLE_ENGINEER, ROLE_ANNOTATOR], MINUTE * 9, HOUR * 11),
        ([ROLE_ANNOTATOR], HOUR * 23, DAY * 6),
    ],
)
def test_a_user_who_only_annotates_has_a_day_for_a_link_and_a_week_for_a_session(
    world: Simulation, callers: Callers, roles: Sequence[WireRole.ValueType], link: int, idle: int
) -> None:
    user = callers.create_user(roles=roles).name
    callers.link(user)
    callers.open()
    callers.link(user, digest="e" * 64)  # as it is active now, it is no invitation
    world.clock.advance(link)
    callers.open(link="e" * 64, session="f" * 64)
    world.clock.advance(idle)
    callers.authenticate("f" * 64)
    callers.link(user, digest="9" * 64)
    world.clock.advance(2 * max(link, idle))
    with pytest.raises(Refused, match="not valid"):
        callers.authenticate("f" * 64)
    with pytest.raises(Refused, match="unknown, expired or used"):
        callers.open(link="9" * 64, session="8" * 64)


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


def rows(unit: Unit) -> dict[str, str]:
    """All rows, by table."""
    tables = unit.tx.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars().all()
    return {table: repr(unit.tx.execute(text(f'SELECT * FROM "{table}"')).all()) for table in tables}  # noqa: S608


def test_an_erased_user_is_an_id_without_a_person(world: Simulation, callers: Callers) -> None:
    user = callers.create_user().name
    callers.link(user)
    callers.open()
    callers.link(user, digest="e" * 64)
    found = callers.erase(user, validate_only=True)
    assert found == ErasedUser(name=user, display_name=PERSON, sessions=1, links=2)
    assert callers.authenticate().display_name == PERSON
    before = world.peek("access", lambda unit: list(audit.newest(unit, 100)))
    callers.erase(user)
    assert callers.erase(user) == ErasedUser(name=user)
    assert (callers.get(user).state, callers.get(user).erased) == (USER_STATE_DISABLED, True)
    assert callers.create_user().name == user  # the request arrives again, late
    with pytest.raises(Refused) as refused:
        callers.authenticate()
    assert refused.value.reason == "SESSION_UNKNOWN"
    told = world.peek("access", rows)
    assert [table for table, values in told.items() if PERSON in values] == []
    after = world.peek("access", lambda unit: list(audit.newest(unit, 100)))
    changes = [each for each in after if each.outcome == audit.CHANGED]
    assert [each for each in before if each.outcome == audit.CHANGED] == changes[1:]
    assert (changes[0].resource, changes[0].action.rpartition("/")[2]) == (user, "EraseUser")


def test_the_name_of_a_disabled_user_is_erased_and_audited_once(world: Simulation, callers: Callers) -> None:
    user = callers.create_user().name
    callers.disable(user)
    for _ in range(2):
        callers.erase(user)
    changes = [each.action.rpartition("/")[2] for each in world.peek("access", lambda unit: audit.newest(unit, 100))]
    assert changes.count("EraseUser") == 1
    assert callers.get(user).erased


def test_a_built_in_user_is_not_erased(callers: Callers) -> None:
    callers.link()
    with pytest.raises(InvalidField, match="the user of a person"):
        callers.erase("users/operator")


def test_what_is_personal_is_in_one_table_and_no_secret_is_in_any(world: Simulation, callers: Callers) -> None:
    user = callers.create_user().name
    callers.link(user)
    callers.open()
    told = world.peek("access", rows)
    assert [table for table, values in told.items() if PERSON in values] == ["people"]
    assert "outbox" in [table for table, values in told.items() if user in values]


def test_bad_input_is_refused_by_field(world: Simulation, callers: Callers) -> None:
    stub = AccessServiceStub(world.channel("access", Role.OPERATOR))
    with pytest.raises(InvalidField, match="display_name"):
        world.insist(lambda: stub.CreateUser(CreateUserRequest(display_name="a\nb", roles=[ROLE_ENGINEER])))
    with pytest.raises(InvalidField, match="operator, engineer, annotator or client"):
        world.insist(lambda: stub.CreateUser(CreateUserRequest(display_name="A", roles=[ROLE_AGENT])))
    with pytest.raises(InvalidField, match="got '77'"):
        world.insist(lambda: stub.CreateUser(CreateUserRequest(display_name="A", roles=[77])))  # type: ignore[list-item]
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


class Joining:
    """An operator who invites, and machines that join; digests stand for their tokens."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._operator = AccessServiceStub(world.channel("access", Role.OPERATOR))
        self._joiner = AccessServiceStub(world.channel("access", Role.JOINER))
        self._service = AccessServiceStub(world.channel("access", Role.SERVICE))

    def invite(self, digest: str, node: str = "nodes/a") -> None:
        request = InviteNodeRequest(token_digest=digest, node=node, valid_minutes=10)
        self._world.insist(lambda: self._operator.InviteNode(request))

    def join(self, invitation: str, credential: str, node: str = "nodes/a") -> str:
        request = JoinNodeRequest(invitation_digest=invitation, token_digest=credential, node=node)
        return self._world.insist(lambda: self._joiner.JoinNode(request)).node

    def principal(self, digest: str) -> Principal:
        request = AuthenticateTokenRequest(token_digest=digest)
        return self._world.insist(lambda: self._service.AuthenticateToken(request)).principal

    def tokens(self) -> dict[str, str]:
        listed = self._world.insist(lambda: self._operator.ListTokens(ListTokensRequest()))
        return {token.id: token.state for token in listed.tokens}

    def revoke(self, digest: str) -> None:
        request = RevokeTokenRequest(id=digest[:16])
        assert self._world.insist(lambda: self._operator.RevokeToken(request)).state == "revoked"


@pytest.fixture
def joining(world: Simulation) -> Joining:
    return Joining(world)


A, B, C, D = (letter * 64 for letter in "1234")


def test_an_invitation_is_exchanged_once_for_the_credential_of_its_node(joining: Joining) -> None:
    joining.invite(A)
    invited = joining.principal(A)
    assert (invited.user, list(invited.roles)) == ("nodes/a", [ROLE_JOINER])
    with pytest.raises(Refused, match="is not one of this node"):
        joining.join(A, B, node="nodes/b")
    for _ in range(2):  # the answer may be lost
        assert joining.join(A, B) == "nodes/a"
    joined = joining.principal(B)
    assert (joined.user, list(joined.roles)) == ("nodes/a", [ROLE_AGENT])
    with pytest.raises(Refused, match="was used before"):
        joining.join(A, C)
    with pytest.raises(Refused, match="unknown, expired or revoked"):
        joining.principal(C)
    with pytest.raises(Refused, match="is not one of this node"):
        joining.join(D, C)
    assert joining.tokens() == {A[:16]: "used", B[:16]: "valid"}


def test_an_invitation_that_expired_or_was_revoked_is_refused(world: Simulation, joining: Joining) -> None:
    joining.invite(A)
    joining.invite(B)
    joining.revoke(B)
    with pytest.raises(Refused, match="was revoked"):
        joining.join(B, C)
    world.clock.advance(601)
    with pytest.raises(Refused, match="has expired") as refused:
        joining.join(A, C)
    assert refused.value.reason == "INVITATION_REFUSED"
    records = world.peek("access", lambda unit: audit.newest(unit, 10))
    refusals = {(each.user, each.action, each.outcome) for each in records if each.reason == "INVITATION_REFUSED"}
    assert refusals == {("nodes/a", "join as a node", audit.REFUSED)}


def test_a_machine_that_joins_in_the_place_of_another_revokes_its_credential(joining: Joining) -> None:
    joining.invite(A)
    joining.join(A, B)
    joining.invite(C)
    joining.join(C, D)
    with pytest.raises(Refused, match="revoked"):
        joining.principal(B)
    assert joining.principal(D).user == "nodes/a"
    joining.revoke(D)
    with pytest.raises(Refused, match="revoked"):
        joining.principal(D)
