"""The scheduler: queues jobs, places gangs, opens epochs, keeps the topology.

Promises: a gang runs whole or not at all; one epoch of a job at a time; a device changes hands only after its own agent
let go of it; what happened is in the job's history.
"""

from collections.abc import Iterator
from pathlib import Path

from tutti.chassis.errors import declare
from tutti.chassis.rpc import standard
from tutti.chassis.service import Consumed, Host, Service
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import Reconciler
from tutti.contracts.committer.v1 import Checkpoint, DivergenceDetected
from tutti.contracts.scheduler.v1 import EpochOpened, JobState, PolicyStopped, RankLost, SpikeEnded
from tutti.contracts.scheduler.v1.scheduler_pb2 import DESCRIPTOR
from tutti.scheduler.agentcalls import NODE_TAKEN
from tutti.scheduler.checks import checks
from tutti.scheduler.continuations import NO_SUCH_STEP, NOT_EXTENDABLE
from tutti.scheduler.decisions import POLICY, Decisions
from tutti.scheduler.driver import Driver
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.nodewatch import LostNodes, NodeWatch
from tutti.scheduler.pacewatch import PaceWatch
from tutti.scheduler.rpc import SchedulerApi
from tutti.scheduler.settings import SchedulerSettings
from tutti.scheduler.stalls import Stalls
from tutti.scheduler.tables import Tables
from tutti.scheduler.toolarge import TooLarge

declare(
    {
        "UNKNOWN_EPOCH": "the epoch was never issued; read the node again",
        "JOB_ENDED": "the job has ended; create another",
        "SAME_SHAPE": "the job has this shape already",
        NO_SUCH_STEP: "the job has no sound checkpoint there to continue from; the message says what would do",
        NOT_EXTENDABLE: "the job cannot be continued with other steps; the message says what would do",
        NODE_TAKEN: "another agent serves the node of this name; the message names both",
    }
)


def build(host: Host) -> Service:
    settings = host.settings(SchedulerSettings)
    tables = Tables(host.metadata)
    reconciler = Reconciler(
        "jobs",
        host,
        open=lambda unit: driver.open(unit),
        advance=lambda name: driver.advance(name),
        tell=lambda unit, name, trouble: driver.tell(unit, name, trouble),
    )
    epochs = Epochs(tables, reconciler.wake, settings.attempts)
    watch = NodeWatch(host, tables, epochs, settings.node_ttl_seconds)
    stalls = Stalls(tables, epochs, settings.stall_seconds)
    too_large = TooLarge(tables, epochs, watch, settings.capacity_seconds)
    decisions = Decisions(tables, epochs, watch, stalls, too_large, settings)
    driver = Driver(host, tables, epochs, decisions, settings)
    api = SchedulerApi(host, tables, epochs, watch, stalls, decisions, settings)
    kept = (
        standard.Stored(host.units, tables.jobs, tables.with_progress),
        standard.Stored(host.units, tables.topologies, tables.with_placement),
        standard.Stored(host.units, tables.nodes),
        standard.Stored(host.units, tables.transitions),
    )
    return Service(
        name="scheduler",
        resources=[tables.jobs, tables.nodes, tables.topologies, tables.transitions],
        tables=tables.rows,
        serves=[standard.served(DESCRIPTOR.services_by_name["SchedulerService"], api, *kept)],
        consumes=[Consumed(Checkpoint, driver.on_checkpoint), Consumed(DivergenceDetected, driver.on_divergence)],
        facts=[EpochOpened, PolicyStopped, RankLost, SpikeEnded],
        loops=[watch, LostNodes(watch), PaceWatch(host, tables), reconciler],
        checks=checks(host, tables),
        export=lambda unit: canonical(unit, tables),
        migrations=Path(__file__).with_name("migrations"),
    )


def canonical(unit: Unit, tables: Tables) -> Iterator[CanonicalLine]:
    """Jobs with what they train and what came out; of transitions, those that people asked for."""
    for job in tables.jobs.select(unit):
        ended = {"state": JobState.Name(job.state), "decided_step": job.decided_step}
        outcome = {"model_digest": job.model_digest, "state_digest": job.state_digest}
        spec = {
            "training_digest": job.spec.training_digest,
            "dataset_digest": job.spec.dataset_digest,
            "leaves": job.spec.leaves,
            "steps": job.spec.steps,
        }
        yield CanonicalLine(job.name, {**ended, **outcome, **spec, "line": job.line})
    for transition in tables.transitions.select(unit):
        if transition.actor != POLICY:
            asked = {"job": transition.job, "actor": transition.actor, "cause": transition.cause}
            yield CanonicalLine(
                transition.name,
                {
                    **asked,
                    "from": transition.from_shape.data_parallel,
                    "to": transition.to_shape.data_parallel,
                },
            )
