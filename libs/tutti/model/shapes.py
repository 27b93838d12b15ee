"""Shapes on the wire and as plans know them."""

from tutti.contracts.common.v1 import Shape as WireShape
from tutti.model.plan import OPTIMIZER, RULE, Shape


def to_shape(wire: WireShape) -> Shape:
    """An axis that is not set is 1, another field its default. Raises ShapeError."""
    return Shape(
        dp=wire.data_parallel or 1,
        tp=wire.tensor_parallel or 1,
        pp=wire.pipeline_parallel or 1,
        cp=wire.context_parallel or 1,
        rule=wire.rule or RULE,
        shard=wire.shard or OPTIMIZER,
    )


def to_wire(shape: Shape) -> WireShape:
    """The shape with its digest; a default that came later than the message is left out, as in records."""
    return WireShape(
        data_parallel=shape.dp,
        tensor_parallel=shape.tp,
        pipeline_parallel=shape.pp,
        context_parallel=shape.cp,
        rule=shape.rule,
        digest=shape.shape_digest,
        shard="" if shape.shard == OPTIMIZER else shape.shard,
    )
