"""The shape of an attempt, on the wire and as the plan knows it."""

from __future__ import annotations

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import Shape as WireShape
from tutti.model.plan import RULE, Shape, ShapeError


def to_shape(wire: WireShape) -> Shape:
    """Unset axes are 1, an unset rule is ours. Raises InvalidField."""
    try:
        return Shape(
            dp=wire.data_parallel or 1,
            tp=wire.tensor_parallel or 1,
            pp=wire.pipeline_parallel or 1,
            cp=wire.context_parallel or 1,
            rule=wire.rule or RULE,
        )
    except ShapeError as error:
        raise InvalidField("shape", seen=str(error), expected="a shape that the model can have") from error


def to_wire(shape: Shape) -> WireShape:
    return WireShape(
        data_parallel=shape.dp,
        tensor_parallel=shape.tp,
        pipeline_parallel=shape.pp,
        context_parallel=shape.cp,
        rule=shape.rule,
        digest=shape.shape_digest,
    )
