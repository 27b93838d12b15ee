"""Seeds of the toy services: the rules of the simulation itself, and that a seed repeats itself."""

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.scale import scale
from tests.simulation.toys import BUILDS, build_agent, paid
from tutti.chassis.service import Host, Service
from tutti.contracts.ingest.v1 import CreateIngestRequest, IngestSpec
from tutti.contracts.ingest.v1.stubs import IngestServiceStub
from tutti.contracts.scheduler.v1 import JOB_STATE_DONE, CreateJobRequest, JobSpec
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.simulation import RATES, Fault, Simulation, SimulationFailed

STEPS = {"jobs/a": 4, "jobs/b": 7}


@dataclass(frozen=True)
class Played:
    turns: int
    trace: str
    faults: Counter[Fault]
    events: Counter[str]


def play(seed: int, *, replicas: int = 2) -> Played:
    """Two ingests, two jobs and an agent, under faults to the end; examined."""
    simulation = Simulation(seed, BUILDS, replicas=replicas)
    try:
        simulation.add("node-a", build_agent)
        ingest = IngestServiceStub(simulation.channel("ingest"))
        scheduler = SchedulerServiceStub(simulation.channel("scheduler"))
        for name in ("ingests/a", "ingests/b"):
            spec = IngestSpec(input_path=f"pages of {name}")
            request = CreateIngestRequest(request_id=name, name=name, spec=spec)
            simulation.insist(lambda request=request: ingest.CreateIngest(request))  # type: ignore[misc]
        for name, steps in STEPS.items():
            job = CreateJobRequest(request_id=name, name=name, spec=JobSpec(steps=steps))
            simulation.insist(lambda job=job: scheduler.CreateJob(job))  # type: ignore[misc]
        simulation.run(max_turns=250)
        simulation.settle(until=lambda: finished(simulation))
        simulation.examine()
        expected = {name: steps * (steps + 1) // 2 for name, steps in STEPS.items()}
        expected |= {f"{name} epochs": 1 for name in STEPS}
        if (found := simulation.peek("committer", paid)) != expected:
            raise SimulationFailed(f"seed {seed}: the committer was paid {found}, expected {expected}")
        return Played(simulation.turns, simulation.trace, simulation.faults, simulation.events)
    finally:
        simulation.close()


def finished(simulation: Simulation) -> bool:
    jobs = next(each for each in simulation.lives["scheduler"][0].service.resources if each.kind == "jobs")
    done = simulation.peek("scheduler", lambda unit: jobs.select(unit, state=JOB_STATE_DONE))
    return len(done) == len(STEPS)


def test_nothing_is_lost_and_nothing_doubled_under_any_seed(capsys: pytest.CaptureFixture[str]) -> None:
    faults: Counter[Fault] = Counter()
    events: Counter[str] = Counter()
    turns, seeds = 0, scale(test=15, soak=60)
    for seed in range(seeds):
        played = play(seed, replicas=1 + seed % 2)
        faults += played.faults
        events += played.events
        turns += played.turns
    with capsys.disabled():
        print(f"\n{seeds} seeds, {turns} turns, {sum(events.values())} events of {len(events)} types; faults:")
        for fault in Fault:
            print(f"  {faults[fault]:6} {fault.name.lower()}: {fault.value}")
    assert not [fault.name for fault in RATES if not faults[fault]]


class Meddler:
    """Puts a blob inside a transaction."""

    name, interval = "meddler", 1.0

    def __init__(self, host: Host) -> None:
        self.host = host

    def step(self) -> bool:
        self.host.units.run(lambda unit: self.host.blobs.put_if_absent("a/b/c", b"") and None)
        return True


def test_a_port_that_is_called_inside_a_transaction_fails_the_run() -> None:
    def build(host: Host) -> Service:
        return Service(name="ingest", resources=[], loops=[Meddler(host)])

    with (
        Simulation(1, {"ingest": build}, rates={}) as simulation,
        pytest.raises(SimulationFailed, match=r"seed 1.*blob"),
    ):
        simulation.run(max_turns=10)


def test_a_seed_repeats_itself_whatever_the_hash_seed() -> None:
    program = "from tests.simulation.simulation_test import play; print(play(7).trace)"
    traces = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(path for path in sys.path if path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(traces) == 1
