"""The overview: problems with their remedies, and what is asked of a platform that answers in part."""

import threading
from dataclasses import replace

import grpc

from tutti.chassis.errors import Unavailable
from tutti.chassis.rpc.local import LocalChannel
from tutti.client import overview
from tutti.client.overview import Copy, Overview, Work
from tutti.contracts.admin.v1 import DescribeResponse, DoctorResponse, ListChangesResponse
from tutti.contracts.scheduler.v1 import JOB_STATE_QUEUED, Job, ListNodesResponse, Node

INFO = DescribeResponse.ServiceInfo
HANGS = "evaluation"
RELEASED = threading.Event()
"""Set once the service that hangs may go on."""
ANSWERED: list[str] = []
"""The services that hung, once they went on."""


def finding(service: str, check: str, message: str) -> DoctorResponse.Finding:
    return DoctorResponse.Finding(service=service, check=check, message=message)


def test_a_problem_that_several_services_see_is_named_once() -> None:
    store = "the store is away"
    found = [
        Copy(name, "1", INFO(name=name, ready=True, findings=[finding(name, "blobs", store)]))
        for name in ("dedup", "ingest")
    ]
    assert list(Overview(found).problems()) == ["dedup, ingest: blobs: the store is away"]


def test_copies_that_do_not_serve_are_named_with_their_address() -> None:
    found = [Copy(each, "1", INFO(name="dedup", reason="drains")) for each in ("a:1", "b:1")]
    assert list(Overview(found).problems()) == [f"dedup at {each} does not serve: drains" for each in ("a:1", "b:1")]


def test_dead_letters_are_left_out_for_who_counts_them() -> None:
    letters = INFO(name="dedup", ready=True, findings=[finding("dedup", "dead letters", "3 dead letters; look")])
    found = Overview([Copy("a:1", "1", letters)])
    assert list(found.problems()) == ["dedup: dead letters: 3 dead letters; look"]
    assert list(found.problems(letters=False)) == []


def test_jobs_that_wait_without_an_agent_are_a_problem_with_its_remedy() -> None:
    waits = Overview([], Work(jobs=[Job(name="jobs/j", state=JOB_STATE_QUEUED)]))
    assert "`python -P -m tutti.trainer` one on another machine" in next(waits.problems())
    assert list(replace(waits, work=Work()).problems()) == []


def channel(service: str) -> grpc.Channel:
    """A platform on which one service hangs, the pipeline is away and dedup is not described."""

    def call(path: str, request: object, seconds: float) -> object:
        if service == HANGS:
            RELEASED.wait(60)
            ANSWERED.append(service)
        if service == "pipeline":
            raise Unavailable("pipeline is down")
        if path.endswith("/Describe"):
            return DescribeResponse(
                version="1", services=[] if service == "dedup" else [INFO(name=service, ready=True)]
            )
        if path.endswith("/ListNodes"):
            return ListNodesResponse(nodes=[Node(name="nodes/a")])
        if path.endswith("/ListChanges"):
            return ListChangesResponse(changes={"jobs": 3})
        raise Unavailable("jobs are not told")

    return LocalChannel(call, lambda path, request: iter(()))


def test_a_service_that_hangs_or_is_away_is_named_in_time_and_the_others_are_told() -> None:
    copies = {each.info.name: each for each in overview.copies(channel, 0.5)}
    assert ANSWERED == []  # nobody waited for it
    RELEASED.set()
    assert copies["ingest"].info.ready
    assert copies["pipeline"].info.reason == "pipeline is down"
    assert "no answer for" in copies[HANGS].info.reason
    assert "it is not served at" in copies["dedup"].info.reason


def test_lists_that_cannot_be_read_are_missing_and_the_others_are_there() -> None:
    found = overview.work(channel, 0.5)
    assert [each.name for each in found.nodes] == ["nodes/a"]
    assert found.missing == [
        "jobs are unknown: scheduler: jobs are not told",
        "runs are unknown: pipeline: pipeline is down",
    ]
    assert overview.changes(channel, 0.5) == "scheduler [('jobs', 3)]; away"
