"""Shapes of a job, their versions and the changes between them.

Promises: a shape is hashed as every checkpoint hashes it; a change that no job can make is refused by field.
"""

from collections.abc import Iterable

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import Shape
from tutti.contracts.scheduler.v1 import (
    RANK_ROLE_ROLLOUT,
    TRANSITION_STATE_APPLIED,
    TRANSITION_STATE_RECORDED,
    Job,
    JobSpec,
    Topology,
    Transition,
)
from tutti.model import plan
from tutti.model.shapes import to_wire
from tutti.model.training import Training


def shape_of(ranks: int, shard: str = "") -> Shape:
    """The shape of so many data-parallel ranks, with its digest; `shard` as in the spec of a job."""
    return to_wire(plan.Shape(dp=ranks, shard=shard or plan.OPTIMIZER))


def check_ranks(field: str, ranks: int, leaves: int) -> None:
    """Raise InvalidField unless a step of so many leaves can be spread over so many ranks."""
    if not 1 <= ranks <= leaves:
        raise InvalidField(field, seen=ranks, expected=f"1 … {leaves}: a rank computes at least one of the leaves")


def check_shard(spec: JobSpec, training: Training) -> None:
    """Raise InvalidField unless the job's training works where each rank keeps of the model what `shard` says."""
    if spec.shard not in ("", plan.OPTIMIZER, plan.PARAMETERS):
        raise InvalidField("spec.shard", seen=spec.shard, expected=f"{plan.OPTIMIZER} or {plan.PARAMETERS}")
    if spec.shard == plan.PARAMETERS and (reason := training.unshardable):
        raise InvalidField("spec.shard", seen=spec.shard, expected=f"{plan.OPTIMIZER}, because {reason}")


def wanted(job: Job) -> int:
    """Ranks of the job's next epoch."""
    return int(job.wanted_data_parallel or job.spec.data_parallel)


def workers(job: Job) -> int:
    """Rollout workers of the job: ranks behind those of its shape."""
    return sum(group.ranks for group in job.spec.groups if group.role == RANK_ROLE_ROLLOUT)


def fastest(leaves: int, slots: int) -> int:
    """Ranks for at most so many slots: those whose busiest rank has the fewest leaves, of these the fewest.

    With 8 leaves, 7 slots are no faster than 4 (two leaves each), and 4 cut the tree of a step evenly.
    """
    least = -(-leaves // min(leaves, slots))
    return -(-leaves // least)


def topology_name(job: Job) -> str:
    """The name of the topology with the job's version."""
    return f"topologies/{job.name.removeprefix('jobs/')}/{job.topology_version}"


def first_placed(job: Job, nodes: str, transition: Transition | None) -> Topology:
    """The topology of a placed job that no epoch ran under before; `transition` is the one into its shape."""
    return Topology(
        name=topology_name(job),
        job=job.name,
        version=job.topology_version,
        shape=job.shape,
        nodes=nodes,
        placement_version=job.placement_version,
        epoch=job.epoch,
        transition=transition.name if transition else "",
        cause=f"{transition.actor}: {transition.cause}" if transition else "the shape that the job was created with",
    )


def placed_again(topology: Topology, job: Job, nodes: str) -> Topology:
    """The same topology with the ranks of the job on these nodes now."""
    after = Topology()
    after.CopyFrom(topology)
    del after.placement[:]
    after.nodes = nodes
    after.placement_version = job.placement_version
    return after


def transition_name(job: str, number: int) -> str:
    return f"transitions/{job.removeprefix('jobs/')}/{number}"


def number_of(transition: Transition) -> int:
    return int(transition.name.rpartition("/")[2])


def newest(transitions: Iterable[Transition]) -> Transition | None:
    """The transition that still waits to take effect, if any."""
    recorded = [each for each in transitions if each.state == TRANSITION_STATE_RECORDED]
    return max(recorded, key=number_of, default=None)


def allows(transitions: Iterable[Transition], shape: Shape) -> str:
    """The name of the newest transition into this shape, "" when none leads there.

    One that was applied before still counts: its epoch may have ended before any checkpoint had the new shape.
    """
    led = [
        each
        for each in transitions
        if each.state in (TRANSITION_STATE_RECORDED, TRANSITION_STATE_APPLIED) and each.to_shape.digest == shape.digest
    ]
    return max(led, key=number_of).name if led else ""
