"""Epochs of a policy, and the reports of agents about what it rolled out."""

from sqlalchemy import MetaData

from tutti.chassis.store.unit import Unit
from tutti.checkpoints import example_test as example
from tutti.committer.records import EpochRow, Records
from tutti.committer.service import build as build_committer
from tutti.committer.tables import Tables
from tutti.contracts.committer.v1 import OpenEpochRequest
from tutti.contracts.sampling.v1 import ReportExperienceRequest
from tutti.corpus.conversations.experience import Experience
from tutti.model.plan import Shape
from tutti.model.shapes import to_wire

ITERATIONS = 200
ADMITS = {"committer": build_committer}
"""The service that admits reports, for a simulation."""


def epoch_of(job: str, epoch: int, *nodes: str) -> OpenEpochRequest:
    """The request to open an epoch with a rank on each of these nodes."""
    made = example.policy(iterations=ITERATIONS)
    return OpenEpochRequest(
        job=job,
        epoch=epoch,
        shape=to_wire(Shape(len(nodes))),
        training=made.to_json(),
        training_digest=made.digest(),
        dataset_digest=made.dataset,
        nodes=len(set(nodes)),
        placement=nodes,
    )


def plant_epoch(unit: Unit, request: OpenEpochRequest) -> None:
    """Write an epoch that has made all of its steps into the committer's database."""
    ranks, records = len(request.placement), Records(Tables(MetaData()))
    job, steps = request.job.removeprefix("jobs/"), 5 * ITERATIONS
    row = EpochRow(
        job=job,
        epoch=request.epoch,
        line=0,
        nodes=request.nodes,
        steps=steps,
        base=steps,
        parent="",
        ranks=ranks,
        shape_digest=Shape(ranks).shape_digest,
        training=request.training,
        training_digest=request.training_digest,
        dataset_digest=request.dataset_digest,
        request_digest="",
        opened_at=0,
        response=b"",
    )
    records.put_epoch(unit, row)
    records.put_placement(unit, job, request.epoch, request.placement)


def report_of(job: str, found: Experience, *, node: str, epoch: int) -> ReportExperienceRequest:
    """The report of a node about an experience that it stored."""
    place = f"{job.removeprefix('jobs/')}/0/{found.iteration}"
    return ReportExperienceRequest(
        job=job,
        iteration=found.iteration,
        key=f"trainer/experiences/{place}/{found.digest.removeprefix('blake3:')}={node.removeprefix('nodes/')}",
        digest=found.digest,
        node=node,
        epoch=epoch,
    )
