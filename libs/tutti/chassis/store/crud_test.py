"""Get and List: whole resources, or the fields that a mask names."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from sqlalchemy import MetaData, text

from tutti.backbone import ManualClock, SeededRandomness
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.errors import CorruptRow, InvalidField, NotFound
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import DEFAULT_TENANT, Method, Principal
from tutti.chassis.store import crud
from tutti.chassis.store.resources import PAGE_BYTES, Resource
from tutti.chassis.store.unit import Units
from tutti.contracts.access.v1 import ListUsersResponse, User
from tutti.contracts.annotation.v1 import Campaign
from tutti.contracts.common.v1 import GetRequest, ListRequest, Shape
from tutti.contracts.scheduler.v1 import Job, JobSpec, ListJobsResponse, ListTopologiesResponse, Topology

OPERATOR = Principal.of_role(Role.OPERATOR)
LAB = "tenants/lab"
EVE = Principal("users/eve", frozenset({Role.ENGINEER}), LAB, Method.TOKEN)
JOB = Job(name="jobs/a", spec=JobSpec(training="{}", steps=5), shape=Shape(data_parallel=2, rule="r"), history=["x"])


class Bench:
    def __init__(self, folder: Path) -> None:
        metadata, clock = MetaData(), ManualClock()
        self.database = EmbeddedDatabase(folder / "x.db", clock=clock, inline=True)
        self.jobs = Resource(
            metadata, "jobs", Job, {"state": lambda job: int(job.state)}, event=lambda before, job: Job(name=job.name)
        )
        self.units = Units(self.database, "scheduler", metadata, clock=clock, randomness=SeededRandomness("x"))
        self.database.create(metadata)
        self.units.run(lambda unit: self.jobs.create(unit, JOB))

    def get(self, *paths: str) -> Job:
        return crud.get(self.units, self.jobs, GetRequest(name="jobs/a", read_mask=FieldMask(paths=paths)), OPERATOR)

    def list(self, *paths: str) -> list[Job]:
        request = ListRequest(read_mask=FieldMask(paths=paths))
        return list(crud.list_page(self.units, self.jobs, request, ListJobsResponse, OPERATOR).jobs)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.database.close()


def test_without_a_mask_all_is_returned(bench: Bench) -> None:
    whole = Job()
    whole.CopyFrom(JOB)
    whole.revision = 1
    assert bench.get() == whole
    assert bench.list() == [whole]
    assert crud.get(bench.units, bench.jobs, GetRequest(name="jobs/a"), OPERATOR) == whole


def test_a_mask_returns_what_it_names_and_no_more(bench: Bench) -> None:
    masked = Job(name="jobs/a", spec=JobSpec(steps=5), history=["x"])
    assert bench.get("name", "spec.steps", "history") == masked
    assert bench.list("name", "spec.steps", "history") == [masked]
    assert bench.get("shape") == Job(shape=JOB.shape)


@pytest.mark.parametrize("path", ["nothing", "spec.nothing", "history.0", "", "*"])
def test_a_mask_of_what_is_no_field_is_refused(bench: Bench, path: str) -> None:
    for ask in (bench.get, bench.list):
        with pytest.raises(InvalidField) as caught:
            ask("name", path)
        assert caught.value.field == "read_mask"


def test_numbered_resources_are_listed_by_their_numbers_page_by_page(tmp_path: Path) -> None:
    metadata, clock = MetaData(), ManualClock()
    database = EmbeddedDatabase(tmp_path / "x.db", clock=clock, inline=True)
    made = Resource(metadata, "topologies", Topology, {"job": lambda each: each.job}, numbered=True)
    units = Units(database, "scheduler", metadata, clock=clock, randomness=SeededRandomness("x"))
    database.create(metadata)
    names = [f"topologies/{job}/{version}" for job in ("a", "b") for version in (100, 20, 3)]
    for name in names:
        units.run(lambda unit, name=name: made.create(unit, Topology(name=name, job=name.split("/")[1])))  # type: ignore[misc]
    found, token = list[str](), ""
    while token or not found:
        request = ListRequest(page_size=2, page_token=token)
        page = crud.list_page(units, made, request, ListTopologiesResponse, OPERATOR)
        found, token = [*found, *(each.name for each in page.topologies)], page.next_page_token
    assert found == [f"topologies/{job}/{version}" for job in ("a", "b") for version in (3, 20, 100)]
    only = ListRequest(filter="job=b")
    listed = crud.list_page(units, made, only, ListTopologiesResponse, OPERATOR).topologies
    assert [each.name for each in listed] == [f"topologies/b/{version}" for version in (3, 20, 100)]
    database.close()


def test_a_page_of_large_resources_ends_early_and_the_next_one_continues(bench: Bench) -> None:
    large = Job(name="jobs/b", spec=JobSpec(training="x" * PAGE_BYTES))
    for name in ("jobs/b", "jobs/c"):
        large.name = name
        bench.units.run(lambda unit: bench.jobs.create(unit, large))
    found, request = [], ListRequest(page_size=10)
    while True:
        page = crud.list_page(bench.units, bench.jobs, request, ListJobsResponse, OPERATOR)
        found.append([job.name for job in page.jobs])
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert found == [["jobs/a"], ["jobs/b"], ["jobs/c"]]


class Tenants:
    """Users a0 … a9, of whom every third is of tenants/lab, in lists of their tenant."""

    def __init__(self, folder: Path) -> None:
        metadata, clock = MetaData(), ManualClock()
        self.database = EmbeddedDatabase(folder / "x.db", clock=clock, inline=True)
        self.users: Resource[User] = Resource(
            metadata, "users", User, shown=lambda unit, user, principal: principal.sees(user.tenant)
        )
        self.units = Units(self.database, "access", metadata, clock=clock, randomness=SeededRandomness("x"))
        self.database.create(metadata)
        for number in range(10):
            user = User(name=f"users/a{number}", tenant=DEFAULT_TENANT if number % 3 else LAB)
            self.units.run(lambda unit, user=user: self.users.create(unit, user))  # type: ignore[misc]

    def pages(self, principal: Principal) -> list[list[str]]:
        found, token = list[list[str]](), ""
        while token or not found:
            request = ListRequest(page_size=2, page_token=token)
            page = crud.list_page(self.units, self.users, request, ListUsersResponse, principal)
            found, token = [*found, [each.name for each in page.users]], page.next_page_token
        return found


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[Tenants]:
    made = Tenants(tmp_path)
    yield made
    made.database.close()


def test_pages_are_filled_with_what_exists_for_the_caller(tenants: Tenants) -> None:
    assert tenants.pages(EVE) == [["users/a0", "users/a3"], ["users/a6", "users/a9"]]
    assert tenants.pages(OPERATOR) == [["users/a1", "users/a2"], ["users/a4", "users/a5"], ["users/a7", "users/a8"]]
    everything = [name for page in tenants.pages(Principal.of_role(Role.SERVICE)) for name in page]
    assert everything == [f"users/a{number}" for number in range(10)]


def test_what_does_not_exist_for_the_caller_is_not_found(tenants: Tenants) -> None:
    assert crud.get(tenants.units, tenants.users, GetRequest(name="users/a0"), EVE).tenant == LAB
    for name in ("users/a1", "users/nobody"):
        with pytest.raises(NotFound, match=name):
            crud.get(tenants.units, tenants.users, GetRequest(name=name), EVE)


def test_a_kind_of_tenants_is_refused_without_the_predicate() -> None:
    with pytest.raises(ValueError, match="campaigns belong to tenants"):
        Resource(MetaData(), "campaigns", Campaign)


DAMAGES = {
    "a body": "UPDATE {} SET body = x'ff' || substr(body, 2) WHERE name = '{}'",
    "a revision": "UPDATE {} SET revision = 'many' WHERE name = '{}'",
    "a text that is no text": "UPDATE {} SET request_digest = CAST(x'c3ff' AS TEXT) WHERE name = '{}'",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_row_is_left_out_of_a_list_and_named(bench: Bench, damage: str) -> None:
    for name in ("jobs/b", "jobs/c"):
        bench.units.run(lambda unit, name=name: bench.jobs.create(unit, Job(name=name)))  # type: ignore[misc]
    bench.units.run(lambda unit: (unit.tx.execute(text(damage.format("jobs", "jobs/b"))), None)[1])
    whole = crud.list_page(bench.units, bench.jobs, ListRequest(), ListJobsResponse, OPERATOR)
    assert ([job.name for job in whole.jobs], len(whole.damaged)) == (["jobs/a", "jobs/c"], 1)
    assert "'jobs/b' of the table jobs" in whole.damaged[0]
    first = crud.list_page(bench.units, bench.jobs, ListRequest(page_size=1), ListJobsResponse, OPERATOR)
    after = ListRequest(page_size=1, page_token=first.next_page_token)
    second = crud.list_page(bench.units, bench.jobs, after, ListJobsResponse, OPERATOR)
    assert [[job.name for job in page.jobs] for page in (first, second)] == [["jobs/a"], ["jobs/c"]]
    assert [len(page.damaged) for page in (first, second)] == [0, 1]
    with pytest.raises(CorruptRow):  # services would act as if it did not exist
        crud.list_page(bench.units, bench.jobs, ListRequest(), ListJobsResponse, Principal.of_role(Role.SERVICE))


def test_a_damaged_row_of_some_tenant_is_named_to_operators_alone(tenants: Tenants) -> None:
    damage = text(DAMAGES["a body"].format("users", "users/a1"))
    tenants.units.run(lambda unit: (unit.tx.execute(damage), None)[1])
    for principal, count in ((OPERATOR, 1), (EVE, 0)):
        page = crud.list_page(tenants.units, tenants.users, ListRequest(), ListUsersResponse, principal)
        assert len(page.damaged) == count
        assert "users/a1" not in {each.name for each in page.users}
