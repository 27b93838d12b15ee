"""Ranks that compute wrong gradients in every epoch, on real services and agents: the undisturbed state comes out."""

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.scale import SOAK, rotation
from tests.simulation.platform import NodeFault, Platform
from tests.simulation.story import CALM, CALM_NODES, write_pages
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.pipeline.v1 import CreateRunRequest
from tutti.contracts.pipeline.v1.stubs import PipelineServiceStub
from tutti.contracts.scheduler.v1 import JOB_STATE_DONE, JOB_STATE_FAILED, Job
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.contracts.trainer.v1 import Start
from tutti.pipeline.plans.graph import node_of
from tutti.pipeline.plans.reading import read
from tutti.scheduler import jobs
from tutti.simulation import Fault
from tutti.trainer.simulated import Plant

RUN, STEPS, BEGUN = "runs/main", 23, 12
"""An audit is due after steps 10, 20 and 23; the fault begins between two of them."""
RATES: Mapping[Fault, float] = {Fault.RPC_LOST_BEFORE: 0.02, Fault.RPC_LOST_AFTER: 0.02, Fault.RPC_DUPLICATED: 0.02}
NODE_RATES: Mapping[NodeFault, float] = {NodeFault.RANK_KILLED: 0.005, NodeFault.IO_CHILD_DIED: 0.01}
WRONG, NOT_FINITE, HELD = Plant(BEGUN), Plant(BEGUN, not_finite=True), Plant(BEGUN, held=True)
Faulty = Callable[[str, Start], Plant | None]


def recipe(pages: Path, *, shrink: bool, attempts: int) -> str:
    return f"""
name: audited
size: tiny
input: {{path: {pages}}}
tokenizer: {{vocabulary: 258}}
data: {{context: 8, validation_fraction: 0.3}}
train:
  steps: {STEPS}
  ranks: 4
  microbatches: 4
  rows: 1
  checkpoint_every: 5
  audit_every: 10
  shrink: {str(shrink).lower()}
  attempts: {attempts}
"""


class Training:
    """A job of four ranks, in a platform with nodes of two slots each, until it has ended."""

    def __init__(
        self,
        pages: Path,
        seed: int,
        nodes: str,
        faulty: Faulty = lambda node, start: None,
        *,
        shrink: bool = False,
        attempts: int = 50,
        stormy: bool = False,
    ) -> None:
        rates, node_rates = (RATES, NODE_RATES) if stormy else (CALM, CALM_NODES)
        platform = Platform(seed, rates=rates, node_rates=node_rates)
        try:
            platform.faulty = faulty
            simulation, text = platform.simulation, recipe(pages, shrink=shrink, attempts=attempts)
            for node in nodes:
                platform.add_node(node)
            pipeline = PipelineServiceStub(simulation.channel("pipeline"))
            request = CreateRunRequest(request_id=RUN, name=RUN, recipe=text)
            simulation.insist(lambda: pipeline.CreateRun(request))
            name = node_of(read(text), "train").resource(RUN)
            scheduler = SchedulerServiceStub(simulation.channel("scheduler"))
            committer = CommitterServiceStub(simulation.channel("committer"))

            def ended() -> bool:
                listed = simulation.insist(lambda: scheduler.ListJobs(ListRequest())).jobs
                return any(each.name == name and each.state in jobs.ENDED for each in listed)

            simulation.run(until=ended, max_turns=100_000, every=50)
            simulation.settle()
            self.job: Job = simulation.insist(lambda: scheduler.GetJob(GetRequest(name=name)))
            listed = simulation.insist(lambda: scheduler.ListNodes(ListRequest())).nodes
            self.convictions = {each.name: each.convictions for each in listed if each.convictions}
            found = simulation.insist(lambda: committer.ListCheckpoints(ListRequest(page_size=100))).checkpoints
            self.checkpoints: list[Checkpoint] = list(found)
        finally:
            platform.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    logging.disable(logging.ERROR)
    folder = tmp_path_factory.mktemp("pages")
    write_pages(folder)
    yield folder
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def undisturbed(pages: Path) -> str:
    job = Training(pages, 0, "ab").job
    assert job.state == JOB_STATE_DONE
    assert "audit" not in " ".join(job.history)
    return job.state_digest


def on(node: str, rank: int, plant: Plant = WRONG) -> Faulty:
    """One rank of a node is faulty in every epoch."""
    return lambda at, start: plant if (at, start.rank) == (node, rank) else None


@pytest.mark.parametrize("plant", [WRONG, NOT_FINITE, HELD], ids=["wrong", "not finite", "held"])
@pytest.mark.parametrize("seed", range(10) if SOAK else [rotation() % 2])
def test_a_faulty_node_is_excluded_at_its_second_conviction_and_the_state_is_the_undisturbed_one(
    pages: Path, undisturbed: str, seed: int, plant: Plant
) -> None:
    found = Training(pages, seed, "ab", on("b", 2, plant), shrink=True, stormy=True)
    assert (found.job.state, found.job.state_digest) == (JOB_STATE_DONE, undisturbed), found.job.history
    assert found.convictions == {"nodes/b": 2}
    assert found.job.shape.data_parallel == 2
    suspects = {(each.line, each.step) for each in found.checkpoints if each.suspect}
    assert {line for line, _ in suspects} <= set(range(found.job.line))
    assert {step for _, step in suspects} <= {15}


def test_a_spare_node_replaces_one_that_was_convicted_once(pages: Path, undisturbed: str) -> None:
    seen: list[str] = []

    def where_it_began(at: str, start: Start) -> Plant | None:
        """Rank 2 is faulty on the node where it was placed first."""
        if start.rank != 2:
            return None
        seen.append(at)
        return WRONG if at == seen[0] else None

    found = Training(pages, 0, "abc", where_it_began)
    assert (found.job.state, found.job.state_digest) == (JOB_STATE_DONE, undisturbed), found.job.history
    assert found.convictions == {f"nodes/{seen[0]}": 1}


def test_without_another_node_the_job_fails_after_the_second_conviction(pages: Path) -> None:
    found = Training(pages, 0, "ab", on("b", 2))
    assert found.job.state == JOB_STATE_FAILED
    assert "tutti nodes clear b" in found.job.reason


def test_two_faulty_ranks_on_two_nodes_are_both_named_and_nobody_is_convicted(pages: Path) -> None:
    faulty = {("a", 1), ("b", 3)}
    found = Training(pages, 0, "ab", lambda at, start: WRONG if (at, start.rank) in faulty else None, attempts=3)
    assert (found.job.state, found.convictions) == (JOB_STATE_FAILED, {})
    assert all(name in found.job.reason for name in ("rank 1 on nodes/a", "rank 3 on nodes/b"))
    assert all(each.suspect for each in found.checkpoints if each.step > 10)
    assert any(each.suspect for each in found.checkpoints)
