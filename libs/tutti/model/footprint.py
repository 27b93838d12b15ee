"""The memory that a rank of a training needs, as a lower bound. Does not import torch.

Promises: only what every rank holds at the same time is counted, so no training that could run is above it; torch
itself, the temporary results of a block and the collectives come on top.
"""

from dataclasses import dataclass

from tutti.model.chunks import Layout
from tutti.model.plan import PARAMETERS
from tutti.model.training import Training

NUMBER_BYTES = 4
"""The size of a parameter, gradient, moment or logit, which are float32."""
FEWEST_BYTES = 2
"""The size of an activation on any device: bfloat16 on a GPU, while a processor computes in float32."""
STATE_NUMBERS = 3
"""The numbers of a parameter in a checkpoint: itself and two moments."""
SNAPSHOTS = 2
"""The copies of the state that a node keeps for checkpoints."""
CONTEXT = "lower the tokens of a row (data.context, or the length of the stage): its mask grows with their square"
ROWS = "lower the rows of a microbatch, their tokens (data.context), or the size of the model"
MODEL = (
    "choose a smaller model (size, model, tokenizer.vocabulary), or set shard: parameters with more ranks on more nodes"
)
MOST_TIMES = 2.5
"""The highest factor by which the memory of a rank exceeds its lower bound, beside torch itself: about this."""
FEWEST_ROWS = 16
"""Rows of logits that are held at once, whatever the vocabulary; see `tutti.model.head`."""


@dataclass(frozen=True)
class Footprint:
    """Bytes. `rank` is what each rank holds at least, `gang` what all ranks and their snapshots need together.

    `remedy` says what to lower: the keys of a recipe on which the largest part of it depends.
    """

    rank: int
    gang: int
    remedy: str


def footprint(training: Training, ranks: int, shard: str = "", *, activation_bytes: int = NUMBER_BYTES) -> Footprint:
    """The memory that a training needs on CPU ranks, or, with FEWEST_BYTES, on those of any device.

    `shard` is as in `plan.Shape`, empty for the default.
    """
    layout = Layout(training.model)
    kept = NUMBER_BYTES * (1 + SNAPSHOTS) * STATE_NUMBERS * layout.parameters
    state = NUMBER_BYTES * _parameters(training, layout, ranks, shard)
    mask, blocks = (activation_bytes * count for count in (_mask(training), _blocks(training)))
    computing, share = state + mask + blocks, -(-kept // ranks)
    parts = ((mask, CONTEXT), (blocks, ROWS), (state + share, MODEL))
    _, remedy = max(parts)
    return Footprint(rank=computing + share, gang=ranks * computing + kept, remedy=remedy)


def _parameters(training: Training, layout: Layout, ranks: int, shard: str) -> int:
    """Numbers: the parameters and a gradient, a second one for audits, and, of a model that predicts tokens, the sum of
    the output matrix's gradient and the logits of a few positions.
    """
    model, whole = training.model, layout.parameters
    own = whole
    if shard == PARAMETERS:
        own = -(-whole // ranks) + max(unit.length for unit in layout.units)
    head = 0 if model.scalar_head else (model.width + FEWEST_ROWS) * model.vocabulary
    return own + (2 if training.audit_every else 1) * whole + head


def _mask(training: Training) -> int:
    """Numbers of the mask that keeps attention inside documents. Policies read answers that share their prompts: their
    masks are smaller.
    """
    masked = training.model.document_mask and not training.updates
    return training.step.rows * training.length**2 if masked else 0


def _blocks(training: Training) -> int:
    """Numbers that a microbatch leaves for its backward.

    A block keeps its two normalized inputs, queries, keys, values, their mixture and the hidden layer; one that is
    compiled may compute all but its input again. Nothing of policies, whose answers may be short.
    """
    if training.updates:
        return 0
    model = training.model
    heads = 2 * (model.heads + model.kv_heads) * model.head_width
    block = model.width if training.step.compile else 2 * model.width + heads + 3 * model.hidden
    return training.step.rows * training.length * (model.width + model.layers * block)
