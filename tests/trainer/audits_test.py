"""Four real ranks on two nodes, one of which computes wrongly: what the agents report names it alone."""

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.planted import BEGUN, GUILTY, OTHER, Plant

from tutti.contracts.scheduler.v1 import RANK_EVENT_FINISHED, AuditFailure
from tutti.platform.interpreter import PATH
from tutti.trainer.agent.forkclient import ForkClient

Wait = Callable[..., None]
ROOT = Path(__file__).resolve().parents[2]
EVERY = 4
"""Steps between two audits; the fault begins before the first one."""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkClient]:
    """One import of torch for all tests; its ranks compute wrongly where the seed of their training says so."""
    before = os.environ.get(PATH, "")
    os.environ[PATH] = os.pathsep.join(entry for entry in (str(ROOT), before) if entry)
    found = ForkClient(program="tests.trainer.planted")
    yield found
    found.close()
    os.environ[PATH] = before


def audited(stage: Any, wait: Wait, *, seed: int, steps: int = 8) -> list[AuditFailure]:
    """The audits that were reported; none of a training that comes to its end."""
    training = dataclasses.replace(stage.training(steps=steps), audit_every=EVERY)
    training = dataclasses.replace(training, step=dataclasses.replace(training.step, seed=int(seed)))
    for node, ranks in (("a", (0, 1)), ("b", (2, 3))):
        stage.agent(node)
        stage.plane.assign(node, stage.assignment(training, ranks=ranks, dp=4))

    def found() -> list[AuditFailure]:
        return [each.audit for each in list(stage.plane.losses) if each.HasField("audit")]

    wait(lambda: len(stage.plane.events(RANK_EVENT_FINISHED)) == 4 or found())
    return found()


@pytest.mark.parametrize(
    ("plant", "step"),
    [
        (Plant.GRADIENT_NAN, BEGUN),
        (Plant.LOSS_NAN, BEGUN),
        (Plant.FLIP, EVERY),
        (Plant.PARAMETERS, EVERY),
    ],
)
def test_a_rank_that_computes_wrongly_is_convicted_alone(stage: Any, wait: Wait, plant: Plant, step: int) -> None:
    found = audited(stage, wait, seed=plant)
    assert found
    for audit in found:
        assert (audit.step, list(audit.convicted), list(audit.disagreements)) == (step, [GUILTY], [])


def test_two_ranks_that_compute_wrongly_are_both_named_and_nobody_is_convicted(stage: Any, wait: Wait) -> None:
    found = audited(stage, wait, seed=Plant.TWO)
    assert found
    for audit in found:
        named = {rank for each in audit.disagreements for rank in (each.rank, each.witness)}
        assert {GUILTY, OTHER} <= named
        assert list(audit.convicted) == []


def test_a_clean_run_names_nobody(stage: Any, wait: Wait) -> None:
    assert audited(stage, wait, seed=0) == []
    assert not stage.plane.losses
