"""The shape of an attempt, on the wire and as the plan knows it."""

from tutti.contracts.common.v1 import Shape as WireShape
from tutti.model.plan import RULE, Shape


def to_shape(wire: WireShape) -> Shape:
    """An axis that is not set is 1. Raises ShapeError."""
    return Shape(
        dp=wire.data_parallel or 1,
        tp=wire.tensor_parallel or 1,
        pp=wire.pipeline_parallel or 1,
        cp=wire.context_parallel or 1,
        rule=wire.rule or RULE,
    )


def to_wire(shape: Shape) -> WireShape:
    return WireShape(
        data_parallel=shape.dp,
        tensor_parallel=shape.tp,
        pipeline_parallel=shape.pp,
        context_parallel=shape.cp,
        rule=shape.rule,
        digest=shape.shape_digest,
    )
