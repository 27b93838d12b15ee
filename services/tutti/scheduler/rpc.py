"""The calls that the scheduler answers: jobs, nodes, topologies and transitions; those of agents are beside it.

Promises: what cannot work is refused by field before anything is recorded; a repeated call has its effect once.
"""

from tutti.chassis.errors import InvalidField, Refused
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.store.resources import check_name
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import CancelRequest
from tutti.contracts.scheduler.v1 import (
    NODE_STATE_DRAINING,
    NODE_STATE_LEFT,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    ClearNodeRequest,
    ContinuedJob,
    CreateJobRequest,
    CreateJobResponse,
    DrainNodeRequest,
    ExtendJobRequest,
    Job,
    JobSpec,
    JobState,
    Node,
    ReshapeJobRequest,
    RewindJobRequest,
    Transition,
)
from tutti.model.training import Training
from tutti.scheduler import gangs, jobs, topology
from tutti.scheduler.agentcalls import AgentCalls
from tutti.scheduler.continuations import MAX_CAUSE, Continuations
from tutti.scheduler.decisions import Decisions
from tutti.scheduler.epochs import Epochs
from tutti.scheduler.nodewatch import NodeWatch
from tutti.scheduler.settings import SchedulerSettings
from tutti.scheduler.stalls import Stalls
from tutti.scheduler.tables import Tables
from tutti.scheduler.trainings import completed


class SchedulerApi(AgentCalls):
    def __init__(
        self,
        host: Host,
        tables: Tables,
        epochs: Epochs,
        watch: NodeWatch,
        stalls: Stalls,
        decisions: Decisions,
        settings: SchedulerSettings,
    ) -> None:
        super().__init__(host, tables, epochs, watch, stalls, settings)
        self._decisions, self._continuations = decisions, Continuations(host, tables, epochs)

    def CreateJob(self, request: CreateJobRequest, call: Call) -> CreateJobResponse:
        check_name("jobs", request.name)
        spec = completed(request.spec)
        check_spec(spec)
        gangs.check_size(request.name, spec)

        def create(unit: Unit) -> Job:
            job = self.tables.jobs.create(unit, jobs.created(request.name, spec, unit.now), request)
            self._epochs.wake(unit, job.name)
            return job

        if request.validate_only:
            return CreateJobResponse(job=Job(name=request.name, spec=spec))
        return CreateJobResponse(job=self._host.units.run(create))

    def CancelJob(self, request: CancelRequest, call: Call) -> Job:
        check_name("jobs", request.name)

        def cancel(unit: Unit) -> Job:
            job = self.tables.jobs.lock(unit, request.name)
            if request.validate_only or job.state in jobs.ENDED:
                return job
            self._epochs.wake_queue(unit)
            return self._epochs.end(unit, jobs.cancelled(job, unit.now))

        return self._host.units.run(cancel)

    def ExtendJob(self, request: ExtendJobRequest, call: Call) -> ContinuedJob:
        return self._continuations.extend(request)

    def RewindJob(self, request: RewindJobRequest, call: Call) -> ContinuedJob:
        return self._continuations.rewind(request)

    def ReshapeJob(self, request: ReshapeJobRequest, call: Call) -> Transition:
        check_name("jobs", request.job, field="job")
        if len(request.cause) > MAX_CAUSE:
            expected = f"at most {MAX_CAUSE}: say in short why, the job's history keeps it"
            raise InvalidField("cause", seen=f"{len(request.cause)} characters", expected=expected)

        def reshape(unit: Unit) -> Transition:
            again = self._asked_before(unit, request)
            if again is not None:
                return again
            job = self.tables.jobs.lock(unit, request.job)
            topology.check_ranks("data_parallel", request.data_parallel, job.spec.leaves)
            if job.state in jobs.ENDED:
                state = JobState.Name(job.state).removeprefix("JOB_STATE_").lower()
                raise Refused(
                    "JOB_ENDED",
                    f"{job.name} has ended ({state}), and an ended job has no ranks; "
                    f"reshape one that trains, or run the recipe with another train.ranks",
                )
            if request.data_parallel == topology.wanted(job):
                waits = topology.newest(self.tables.transitions.select(unit, job=job.name))
                if waits is not None and not request.request_id:
                    return waits
                raise Refused(
                    "SAME_SHAPE", f"{job.name} has, or is about to have, {request.data_parallel} ranks already"
                )
            if request.validate_only:
                after = topology.shape_of(request.data_parallel, job.spec.shard)
                return Transition(job=job.name, from_shape=job.shape, to_shape=after)
            made = self._decisions.transition(
                unit, job, request.data_parallel, actor=call.role.value, cause=request.cause or "on request"
            )
            return self.tables.transitions.create(unit, made, request)

        return self._host.units.run(reshape)

    def _asked_before(self, unit: Unit, request: ReshapeJobRequest) -> Transition | None:
        """The transition recorded for the same request_id. Raises AlreadyExists if that request was a different one."""
        name = self.tables.transition_of_request(unit, request.request_id)
        return self.tables.transitions.create(unit, Transition(name=name), request) if name else None

    def DrainNode(self, request: DrainNodeRequest, call: Call) -> Node:
        check_name("nodes", request.name)

        def drain(unit: Unit) -> Node:
            node = self.tables.nodes.lock(unit, request.name)
            self.tables.drain(unit, node.name, draining=request.drain)
            if node.state not in (NODE_STATE_LOST, NODE_STATE_LEFT):
                node.state = NODE_STATE_DRAINING if request.drain else NODE_STATE_READY
                node.reason = "takes no new ranks, on request" if request.drain else ""
            self._epochs.wake_queue(unit)
            return self.tables.nodes.put(unit, node)

        return self._host.units.run(drain)

    def ClearNode(self, request: ClearNodeRequest, call: Call) -> Node:
        check_name("nodes", request.name)

        def clear(unit: Unit) -> Node:
            node = self.tables.nodes.lock(unit, request.name)
            self.tables.convictions.clear(unit, node.name)
            node.convictions = 0
            self._epochs.wake_queue(unit)
            return self.tables.nodes.put(unit, node)

        return self._host.units.run(clear)


def check_spec(spec: JobSpec) -> None:
    """Raise InvalidField for a completed spec that cannot be trained as asked."""
    holder = CreateJobRequest(spec=spec)
    required(holder, "spec.training", "spec.dataset_manifest_key", "spec.leaves", "spec.steps", "spec.data_parallel")
    training = Training.from_json(spec.training)
    for field, seen, expected in (
        ("spec.training", spec.training, training.to_json()),
        ("spec.training_digest", spec.training_digest, training.digest()),
        ("spec.dataset_digest", spec.dataset_digest, training.dataset),
        ("spec.mixed", [each.digest for each in spec.mixed], list(training.datasets[1:])),
        ("spec.initial", spec.initial, training.initial.checkpoint if training.initial else ""),
        ("spec.models", [each.checkpoint for each in spec.models], [each.checkpoint for each in training.models]),
        ("spec.leaves", spec.leaves, training.step.leaves),
        ("spec.steps", spec.steps, training.steps),
    ):
        if seen != expected:
            raise InvalidField(field, seen=seen, expected=f"{expected!r}, as in spec.training")
    if bool(spec.tokenizer_key) != bool(training.tokenizer):
        expected = f"the blob of {training.tokenizer}, as in spec.training" if training.tokenizer else "nothing"
        raise InvalidField("spec.tokenizer_key", seen=spec.tokenizer_key or "nothing", expected=expected)
    topology.check_ranks("spec.data_parallel", spec.data_parallel, spec.leaves)
    topology.check_shard(spec, training)
