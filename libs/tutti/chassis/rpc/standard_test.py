"""Get, List and Cancel of a kind: derived where the API has none, never instead of the API's own."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import MetaData

from tutti.backbone import ManualClock, SeededRandomness
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.methods import BadService, check_api
from tutti.chassis.rpc.standard import Stored, served
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit, Units
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest
from tutti.contracts.scheduler.v1 import Job, Node
from tutti.contracts.scheduler.v1.scheduler_pb2 import DESCRIPTOR

SCHEDULER = DESCRIPTOR.services_by_name["SchedulerService"]
CALL = Call(Role.OPERATOR, "", "test", 10.0)


class Bench:
    def __init__(self, folder: Path) -> None:
        metadata, clock = MetaData(), ManualClock()
        self.database = EmbeddedDatabase(folder / "x.db", clock=clock, inline=True)
        self.jobs = Resource(metadata, "jobs", Job)
        self.nodes = Resource(metadata, "nodes", Node)
        self.units = Units(self.database, "scheduler", metadata, clock=clock, randomness=SeededRandomness("x"))
        self.database.create(metadata)
        self.units.run(lambda unit: self.jobs.create(unit, Job(name="jobs/a")))
        self.units.run(lambda unit: self.nodes.create(unit, Node(name="nodes/a")))

    def api(self, own: object) -> Any:
        return served(SCHEDULER, own, Stored(self.units, self.jobs, told), Stored(self.units, self.nodes)).api


def told(unit: Unit, job: Job) -> Job:
    job.reason = "told"
    return job


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.database.close()


def test_each_kind_answers_get_and_list(bench: Bench) -> None:
    api = bench.api(object())
    assert api.GetNode(GetRequest(name="nodes/a"), CALL).name == "nodes/a"
    assert [node.name for node in api.ListNodes(ListRequest(), CALL).nodes] == ["nodes/a"]
    assert [job.name for job in api.ListJobs(ListRequest(), CALL).jobs] == ["jobs/a"]


def test_what_is_told_is_in_get_alone(bench: Bench) -> None:
    api = bench.api(object())
    assert api.GetJob(GetRequest(name="jobs/a"), CALL).reason == "told"
    assert [job.reason for job in api.ListJobs(ListRequest(), CALL).jobs] == [""]


def test_the_api_has_precedence(bench: Bench) -> None:
    def get_job(request: GetRequest, call: Call) -> Job:
        return Job(name=request.name, reason="mine")

    api = bench.api(SimpleNamespace(GetJob=get_job))
    assert api.GetJob(GetRequest(name="jobs/b"), CALL) == Job(name="jobs/b", reason="mine")


def test_a_kind_without_cancel_leaves_that_call_to_the_api(bench: Bench) -> None:
    with pytest.raises(BadService, match="CancelJob"):
        check_api(SCHEDULER, bench.api(object()))


def test_cancel_is_derived_where_the_kind_has_one(bench: Bench) -> None:
    def cancel(request: CancelRequest, principal: Principal) -> Job:
        return Job(name=request.name, reason="cancelled")

    stored = Stored(bench.units, bench.jobs)
    kind: Any = SimpleNamespace(resource=bench.jobs, get=stored.get, page=stored.page, cancel=cancel)
    api: Any = served(SCHEDULER, object(), kind).api
    assert api.CancelJob(CancelRequest(name="jobs/a"), CALL).reason == "cancelled"
