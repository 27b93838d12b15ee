"""The engine of a replica: a staged checkpoint, loaded and started in the mode that it can promise."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tutti.checkpoints.bodies import Body
from tutti.checkpoints.imported import ImportBody
from tutti.checkpoints.staged import open_staged
from tutti.contracts.chat.v1 import Opened
from tutti.inference.engine import Mode, NotExact, Weights
from tutti.inference.parameters import parameters_of
from tutti.inference.slotengine import SlotEngine
from tutti.model.device import compute_type, deterministic, is_gpu, select
from tutti.model.kernel import kernel_signature
from tutti.model.spec import StepSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Started:
    """`opened` is the description that sessions are opened with; `vocabulary` is the number of ids of the model."""

    engine: SlotEngine
    opened: Opened
    vocabulary: int


def started(folder: Path, *, mode: Mode, slots: int, device: str, context: int = 0) -> Started:
    """Start the engine of a staged checkpoint, for texts of `context` tokens; 0: as many as a row of its training.

    An engine that cannot be exact, on this machine or for this model, is started in fast mode, and its description says
    so. Raises CheckpointError, InferenceError, DeviceMissing.
    """
    staged = open_staged(folder)
    body, place = staged.body, torch.device(device)
    step = _step(body)
    select(device)
    torch.set_num_threads(step.threads)
    deterministic(place, step.exact)
    vector = torch.empty(body.layout.elements, dtype=torch.float32)
    parameters_of(staged, into=vector.numpy())
    weights = Weights(body.model_digest, vector.to(place, compute_type(place)))
    try:
        engine = _started(body, weights, Mode.FAST if is_gpu(device) else mode, slots, context)
    except NotExact as error:
        log.warning("the replica serves in fast mode: %s", error)
        engine = _started(body, weights, Mode.FAST, slots, context)
    signature = engine.signature(kernel_signature(step, place).digest())
    opened = Opened(
        signature=signature.digest(),
        kernel=signature.kernel,
        model=signature.model,
        exact=engine.mode is Mode.EXACT,
        length=signature.length,
        rows=signature.rows,
        query_rows=signature.query_rows,
        shared=signature.shared,
        slots=slots,
    )
    return Started(engine, opened, body.layout.model.vocabulary)


def _step(body: Body) -> StepSpec:
    """The step in whose arithmetic the model answers, which is not compiled."""
    if isinstance(body, ImportBody):
        return StepSpec(rows=body.rows, threads=body.threads)
    return replace(body.training.step, compile=False)


def _started(body: Body, weights: Weights, mode: Mode, slots: int, context: int) -> SlotEngine:
    length = context or (body.length if isinstance(body, ImportBody) else body.training.length)
    engine = SlotEngine(body.layout, rows=body.rows, mode=mode, slots=slots, length=length)
    engine.start(weights)
    return engine
