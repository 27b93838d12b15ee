"""Principals: on whose behalf a call is made, from the first service to the last, and what the audit trail says."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.web.hosted import BUILDS, Hosted, hosted
from tutti.chassis.connections import connection
from tutti.chassis.errors import Problem
from tutti.chassis.identity.auth import AUTHORIZATION, HELD, SCHEME, Role
from tutti.chassis.identity.cause import Cause, caused_by, current_cause
from tutti.chassis.identity.principal import ON_BEHALF_OF, Method, Principal, attributed, delegated, delegation
from tutti.chassis.rpc.methods import methods_of
from tutti.chassis.store import audit, origins
from tutti.chassis.store.audit import Record
from tutti.client import Client, connect
from tutti.contracts.access.v1 import CreateUserRequest, DisableUserRequest, User
from tutti.contracts.admin.v1.admin_pb2 import DESCRIPTOR
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.options.v1 import ROLE_ENGINEER

ADA = Principal("users/ada", frozenset({Role.ENGINEER}), "tenants/lab", Method.SESSION)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted(tmp_path_factory.mktemp("platform")) as found:
        yield found


def records(served: Hosted, service: str = "access") -> list[Record]:
    units = served.running(service).host.units
    found: list[Record] = units.run(lambda unit: list(audit.newest(unit, 100)))
    return found


def client(served: Hosted, role: Role) -> Client:
    return connect(served.data_dir.path, role=role)


def test_a_service_names_whom_it_acts_for_and_keeps_its_own_roles() -> None:
    assert delegated(delegation(ADA), Role.SERVICE) == Principal(
        "users/ada", frozenset({Role.SERVICE}), "tenants/lab", Method.DELEGATED
    )
    for caller in set(Role) - {Role.SERVICE}:
        assert delegated(delegation(ADA), caller) is None
    for role in (Role.SERVICE, Role.AGENT):
        assert delegation(Principal.of_role(role)) == ""
    assert attributed("") is None
    for machine in ("nodes/a", "campaigns/a/annotators/s001"):  # of an event that one of them caused
        assert delegation(attributed(machine)) == ""
    refused = ("users/ada", "users/ada tenants/lab operator", "roles/operator tenants/lab", "users/../x tenants/lab")
    for value in refused:
        assert delegated(value, Role.SERVICE) is None


def test_a_change_is_recorded_with_whoever_asked_for_it(served: Hosted) -> None:
    with client(served, Role.OPERATOR) as operator:
        user = operator.access.CreateUser(CreateUserRequest(display_name="A person", roles=[ROLE_ENGINEER])).user
        newest = records(served)[0]
        assert (newest.user, newest.method, newest.outcome) == ("users/operator", "token", audit.CHANGED)
        assert (newest.action, newest.resource) == ("tutti.access.v1.AccessService/CreateUser", user.name)
        assert newest.revision == 1
        before = len(records(served))
        operator.access.GetUser(GetRequest(name=user.name))
        operator.access.DisableUser(DisableUserRequest(name=user.name, validate_only=True))
        assert len(records(served)) == before


def test_what_was_rolled_back_is_not_recorded(served: Hosted) -> None:
    running, before = served.running("access"), len(records(served))
    users = running.service.resources[0]

    def fails(unit: object) -> None:
        users.create(unit, User(name="users/undone"))
        raise RuntimeError("undone")

    with pytest.raises(RuntimeError, match="undone"), caused_by(Cause(principal=ADA, action="a test")):
        running.host.units.run(fails)
    assert len(records(served)) == before
    with caused_by(Cause(principal=ADA, action="a test")):
        running.host.units.run(lambda unit: users.create(unit, User(name="users/done")))
    assert [(each.user, each.tenant, each.resource) for each in records(served)[:1]] == [
        ("users/ada", "tenants/lab", "users/done")
    ]


def test_a_refused_call_is_recorded_with_its_role_and_address(served: Hosted) -> None:
    with client(served, Role.ENGINEER) as engineer, pytest.raises(Problem, match="may be called by operator"):
        engineer.access.CreateUser(CreateUserRequest(display_name="A", roles=[ROLE_ENGINEER]))
    newest = records(served)[0]
    assert (newest.outcome, newest.reason, newest.user) == (audit.REFUSED, "PERMISSION_DENIED", "users/engineer")
    assert newest.address == "127.0.0.1"
    with connect(served.data_dir.path, token="guessed") as stranger, pytest.raises(Problem):  # noqa: S106
        stranger.access.GetUser(GetRequest(name="users/a"))
    newest = records(served)[0]
    assert (newest.reason, newest.user, newest.action) == (
        "UNAUTHENTICATED",
        "",
        "tutti.access.v1.AccessService/GetUser",
    )


@pytest.mark.parametrize("role", sorted(set(HELD) - {Role.SERVICE, Role.ANNOTATOR}, key=str))
def test_only_a_service_may_act_on_behalf_of_others(served: Hosted, role: Role) -> None:
    tokens = served.data_dir.tokens()

    def asked(caller: Role) -> tuple[grpc.StatusCode, str]:
        path = next(each.path for each in methods_of(DESCRIPTOR.services_by_name["Admin"]) if caller in each.roles)
        metadata = ((AUTHORIZATION, SCHEME + tokens.of(caller)), (ON_BEHALF_OF, delegation(ADA)))
        with connection(served.host.address) as channel:
            method: Any = channel.unary_unary(path)
            outcome = method.future(b"", metadata=metadata, timeout=10)
            outcome.exception()
            return outcome.code(), outcome.details()

    assert ON_BEHALF_OF not in asked(Role.SERVICE)[1]
    code, said = asked(role)
    assert (code, ON_BEHALF_OF in said) == (grpc.StatusCode.PERMISSION_DENIED, True)


def test_a_call_from_service_to_service_is_made_for_the_same_user(served: Hosted) -> None:
    """The scheduler creates a job on behalf of whoever started the run, as it does for the pipeline."""
    channel = served.running("pipeline").host.channel("access")
    metadata = dict(channel.metadata())
    assert ON_BEHALF_OF not in metadata
    with caused_by(Cause(principal=ADA)):
        assert dict(channel.metadata())[ON_BEHALF_OF] == "users/ada tenants/lab"


def test_work_that_goes_on_keeps_its_user_across_a_restart(tmp_path: Path) -> None:
    with hosted(tmp_path) as before:
        running = before.running("access")
        users = running.service.resources[0]
        with caused_by(Cause(principal=ADA, action="a test")):
            running.host.units.run(lambda unit: users.create(unit, User(name="users/kept")))
            running.host.units.run(lambda unit: unit.enqueue("kind", "users/kept", id="t"))
        running.host.units.run(lambda unit: users.create(unit, User(name="users/nobodys")))
    with hosted(tmp_path) as after:
        units = after.running("access").host.units
        for name, expected in (("users/kept", ADA), (origins.of_task("t"), ADA), ("users/nobodys", None)):
            found = units.run(lambda unit, name=name: origins.find(unit, name))
            assert (found and (found.user, found.tenant)) == (expected and (expected.user, expected.tenant))
            assert found is None or found.roles == frozenset()


def test_work_that_goes_on_is_the_owners_if_a_token_of_the_file_asked_for_it(served: Hosted) -> None:
    running = served.running("access")
    users, units = running.service.resources[0], running.host.units
    owner = Principal.of_role(Role.OPERATOR)
    asked = {"owners": owner, "personals": replace(owner, is_owner=False), "adas": replace(ADA, is_owner=True)}
    for name, principal in asked.items():
        with caused_by(Cause(principal=principal, action="a test")):
            units.run(lambda unit, name=name: users.create(unit, User(name=f"users/{name}")))

    def is_owner(name: str) -> bool:
        found = units.run(lambda unit: origins.find(unit, f"users/{name}"))
        assert found is not None
        return bool(found.is_owner)

    assert {name: is_owner(name) for name in asked} == {"owners": True, "personals": False, "adas": False}
    table = units.tables.origins
    units.run(lambda unit: unit.tx.execute(table.update().values(owner=None)).close())  # as version 0.2.0 wrote them
    assert {name: is_owner(name) for name in asked} == {"owners": True, "personals": True, "adas": False}


def test_an_event_carries_the_opaque_id_and_nothing_else(served: Hosted) -> None:
    units = served.running("access").host.units
    users = served.running("access").service.resources[0]
    with caused_by(Cause(principal=ADA, action="a test")):
        units.run(lambda unit: users.create(unit, User(name="users/evented")))
    table = units.tables.outbox
    row = units.run(lambda unit: unit.tx.execute(table.select().where(table.c.subject == "users/evented")).one())
    assert '"user": "users/ada"' in row.headers
    assert "lab" not in row.headers
    assert b"ada" not in row.payload


def test_a_cause_without_a_call_records_nothing(served: Hosted) -> None:
    units, before = served.running("access").host.units, len(records(served))
    users = served.running("access").service.resources[0]
    with caused_by(Cause(principal=ADA, action="a test").afterwards()):
        assert current_cause().principal == ADA
        units.run(lambda unit: users.create(unit, User(name="users/later")))
    assert len(records(served)) == before


def test_every_service_with_a_database_has_an_audit_trail(served: Hosted) -> None:
    for service in BUILDS:
        assert isinstance(records(served, service), list)
