"""A platform whose Kafka, Postgres and S3 are behind a bad network: one of them slow, or cut off in one or both
directions. The doctor names it, and what is under way ends with the states of an embedded platform.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from tests.contract.network_test import WAYS
from tests.e2e.command import checkpoints, platform, tiny, tutti
from tests.faults.part_test import ranks
from tests.faults.policy_test import recipes
from tests.faults.processes import until
from tests.scale import SOAK
from tests.stack.conftest import Embedded
from tests.stack.observed import trains
from tests.stack.remote import HEALED_SECONDS, SETTINGS, Remote, remote_platform, servers
from tutti.chassis.errors import Problem
from tutti.client import connect
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING, GetRequest

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not SOAK, reason="a soak row; tests/contract/network_test.py has a dead address"),
]
# Seconds of a round trip beyond those of this machine. A transaction takes three and more of them.
ROUND_TRIPS = {"kafka": 0.5, "postgres": 0.1, "s3": 0.5}
SLOW = {"kafka": "the event log takes", "postgres": "the database of", "s3": "the blob store takes"}
BYTES_PER_SECOND = 4 << 20
CUTS = list(product(ROUND_TRIPS, WAYS))
CUT_STEPS = [200 + 10 * number for number in range(len(CUTS))]
CARRIED_OUT = (
    *((f"input.limit={5 + number}", "train.steps=10") for number in range(len(ROUND_TRIPS))),
    *(("input.limit=9", f"train.steps={steps}", "train.checkpoint_every=50") for steps in CUT_STEPS),
)
CUT_SECONDS = {"both ways": 300.0}
"""By ways; the others take 20 s."""
ITERATIONS = 12
MOMENTS = (
    ("judged", 0, "postgres"), ("grpo", 1, "s3"), ("grpo", 4, "kafka"), ("grpo", 7, "postgres"), ("grpo", 10, "s3"),
)  # fmt: skip
"""The stage, its step, and the server that is cut off then."""


@pytest.fixture(scope="module")
def remote(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    folder = tmp_path_factory.mktemp("remote")
    with servers(folder / "servers") as urls, remote_platform(folder / "data", urls) as made:
        yield made


@pytest.mark.parametrize("name", list(ROUND_TRIPS))
def test_a_run_over_a_slow_network_ends_with_the_same_states_and_the_doctor_names_it(
    name: str, remote: Remote, pages: Path, embedded: Embedded
) -> None:
    overrides = CARRIED_OUT[list(ROUND_TRIPS).index(name)]
    with remote.networks[name].slow(ROUND_TRIPS[name], BYTES_PER_SECOND):
        result = tutti(*tiny(remote.data_dir, pages, *overrides), seconds=1200)
        assert result.code == 0, result.err
        remote.await_word(SLOW[name])
    assert checkpoints(result.json()) == embedded.checkpoints(*overrides)
    remote.await_health()


@pytest.mark.parametrize(("name", "ways"), CUTS)
def test_a_run_goes_on_after_the_network_was_cut(
    name: str, ways: str, remote: Remote, pages: Path, embedded: Embedded
) -> None:
    overrides = CARRIED_OUT[len(ROUND_TRIPS) + CUTS.index((name, ways))]
    begun = tutti(*tiny(remote.data_dir, pages, *overrides, output=("--detach",)))
    assert begun.code == 0, begun.err
    run = begun.out.strip()
    until(lambda: trains(remote.data_dir, run, 5), seconds=HEALED_SECONDS, what=f"the training of {run}")
    with remote.networks[name].cut(WAYS[ways]):
        remote.await_word(f"the setting {SETTINGS[name]} names")
        linger(CUT_SECONDS.get(ways, 20.0))
    result = tutti("runs", "follow", run, "--data-dir", remote.data_dir, "-o", "json", seconds=600)
    assert result.code == 0, result.err
    assert checkpoints(result.json()) == embedded.checkpoints(*overrides)
    until(lambda: not ranks(remote.data_dir), seconds=HEALED_SECONDS, what="the end of its ranks")
    remote.await_health()


def linger(seconds: float = 20.0) -> None:
    """Wait for as long as a fault lasts."""
    threading.Event().wait(seconds)


def reached(remote: Remote, run: str, stage: str, step: int) -> bool:
    """A stage of a run has begun and, if it is a training, crossed so many steps."""
    with suppress(Problem), connect(remote.data_dir) as client:
        stages = {each.name: each for each in client.pipeline.GetRun(GetRequest(name=run)).stages}
        if stage not in stages or stages[stage].state not in (STATE_RUNNING, STATE_DONE):
            return False
        return not step or client.scheduler.GetJob(GetRequest(name=stages[stage].resource)).step >= step
    return False


def test_a_campaign_and_a_policy_whose_servers_are_cut_off_come_to_the_same_state(
    programs: None, tmp_path: Path
) -> None:
    (tmp_path / "letters").mkdir()
    _, recipe = recipes(tmp_path / "letters", "grpo", ITERATIONS)
    calm = tmp_path / "calm"
    with platform(calm, agents=2):
        whole = tutti("run", recipe, "--data-dir", calm, seconds=900)
        assert whole.code == 0, whole.err
        expected = tutti("export", "--canonical", "--data-dir", calm)
    assert expected.code == 0, expected.err
    with servers(tmp_path / "servers") as urls, remote_platform(tmp_path / "remote", urls) as remote:
        begun = tutti("run", recipe, "--data-dir", remote.data_dir, "--detach")
        assert begun.code == 0, begun.err
        run = begun.out.strip()
        for stage, step, server in MOMENTS:
            until(lambda: reached(remote, run, stage, step), seconds=900, what=f"step {step} of {stage}")  # noqa: B023
            with remote.networks[server].cut():
                remote.await_word(f"the setting {SETTINGS[server]} names")
                linger()
        followed = tutti("runs", "follow", run, "--data-dir", remote.data_dir, seconds=900)
        assert followed.code == 0, followed.err
        found = tutti("export", "--canonical", "--data-dir", remote.data_dir)
    assert found.code == 0, found.err
    assert found.out == expected.out
