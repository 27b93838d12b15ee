"""The decoder-only transformer, and a training step whose arithmetic does not know the topology.

The values exported here (specs, layout, shape, plan, schedule) import no torch; `tutti.model.step` does.
"""

from tutti.model.chunks import KINDS, Chunk, Kind, Layout
from tutti.model.plan import Plan, Shape, ShapeError, SnapshotEntry
from tutti.model.schedule import learning_rate
from tutti.model.spec import ModelSpec, OptimizerSpec, SpecError, StepSpec, digest_of

__all__ = [
    "KINDS",
    "Chunk",
    "Kind",
    "Layout",
    "ModelSpec",
    "OptimizerSpec",
    "Plan",
    "Shape",
    "ShapeError",
    "SnapshotEntry",
    "SpecError",
    "StepSpec",
    "digest_of",
    "learning_rate",
]
