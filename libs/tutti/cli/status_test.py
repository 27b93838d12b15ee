"""What `tutti status` finds wrong, from what the services answer; tests/e2e runs it against a platform."""

from dataclasses import replace

from tutti.cli.status import Status
from tutti.client.overview import Copy, Overview, Work
from tutti.contracts.admin.v1 import DescribeResponse
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    Job,
    Node,
)

INFO = DescribeResponse.ServiceInfo
INGEST = Copy("127.0.0.1:7000", "1.2", INFO(name="ingest", ready=True))
WORK = Work(
    nodes=[Node(name="nodes/a", state=NODE_STATE_READY, slots=2)],
    jobs=[Job(name="jobs/j", state=JOB_STATE_RUNNING, step=1200)],
)
WELL = Status(
    address="127.0.0.1:7000",
    overview=Overview([INGEST], WORK),
    stages=[{"run": "runs/r", "title": "tiny", "stage": "train", "progress": "step 1,200, loss 3.100"}],
    dead_letters=0,
    remedy="`tutti up` starts one",
)


def test_a_platform_without_problems_says_ok_first_and_then_what_it_does() -> None:
    assert list(WELL.lines()) == [
        ("status", "ok"),
        ("platform", "1.2 at 127.0.0.1:7000"),
        ("services", "1 of 1 ready"),
        ("nodes", "nodes/a ready, 2 slots"),
        ("runs", "runs/r tiny: train step 1,200, loss 3.100"),
        ("jobs", "jobs/j running, step 1,200"),
    ]


def test_a_job_that_waits_without_an_agent_is_a_problem_with_its_remedy() -> None:
    waiting = [Job(name="jobs/j", state=JOB_STATE_QUEUED, reason="waiting for nodes")]
    assert list(replace(WELL, overview=Overview([INGEST], replace(WORK, jobs=waiting))).problems()) == []
    for nodes in ([], [Node(name="nodes/a", state=NODE_STATE_LOST, reason="silent for 15 s")]):
        overview = Overview([INGEST], Work(nodes, waiting))
        problems = list(replace(WELL, overview=overview).problems())
        assert problems[-1] == "1 job waits and no agent is ready: `tutti up` starts one"


def test_each_problem_is_named_and_the_verdict_is_the_first() -> None:
    away = Copy("127.0.0.1:7001", "", INFO(name="dedup", reason="no answer"))
    nodes = [*WORK.nodes, Node(name="nodes/b", state=NODE_STATE_LOST, reason="silent for 15 s")]
    bad = replace(WELL, overview=Overview([away, INGEST], replace(WORK, nodes=nodes)), dead_letters=3)
    problems = list(bad.problems())
    assert [each.split()[0] for each in problems] == ["dedup", "nodes/b", "3"]
    assert problems[0] == "dedup does not serve: no answer"
    assert [text for head, text in bad.lines() if head in ("status", "")][:3] == problems
    assert bad.plain()["ok"] is False
