"""The committer's canonical state: what was decided, without who, when and where."""

from __future__ import annotations

from collections.abc import Iterator

from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.bodies import decode_body
from tutti.checkpoints.imported import ImportBody
from tutti.committer.records import Records
from tutti.contracts.committer.v1 import Checkpoint, CheckpointState, Line


def export(
    unit: Unit, records: Records, checkpoints: Resource[Checkpoint], lines: Resource[Line]
) -> Iterator[CanonicalLine]:
    for line in lines.select(unit):
        yield CanonicalLine(
            line.name,
            {
                "cause": line.cause,
                "from_step": line.from_step,
                "head": line.head,
                "parent_line": line.parent_line,
                "sealed": line.sealed,
            },
        )
    for decision in records.decisions(unit):
        checkpoint, body = checkpoints.get(unit, decision.name), decode_body(decision.manifest)
        if isinstance(body, ImportBody):
            content = {"folder_digest": body.folder_digest, "model_digest": body.model_digest}
            shared = {"pinned": checkpoint.pinned, "state": CheckpointState.Name(checkpoint.state)}
            yield CanonicalLine(decision.name, content | shared | {"tokenizer": body.tokenizer})
            continue
        yield CanonicalLine(
            decision.name,
            {
                "bits_per_byte": body.bits_per_byte,
                "dataset": body.training.dataset,
                "loss": body.loss,
                "model_digest": body.model_digest,
                "parent": body.parent,
                "pinned": checkpoint.pinned,
                "scalars": body.scalars.to_dict(),
                "state": CheckpointState.Name(checkpoint.state),
                "state_digest": body.state_digest,
                "training": body.training.digest(),
            }
            | ({"curve": body.curve.digest} if body.curve else {}),
        )
