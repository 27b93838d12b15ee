"""The memory that a model needs to answer, computed before it is loaded. Pure; does not import torch.

It counts all that grows with the model and its context; the code of a process needs some hundred MB more.
"""

from bisect import bisect_right
from dataclasses import dataclass

from tutti.model.chunks import Layout
from tutti.model.spec import REGISTER, ModelSpec

BYTES = 4
"""Those of a float32, in which everything is kept."""
ROWS = 8
"""Texts that a decoder continues at once."""
STREAMS = 32
"""Those that an engine continues at once, where nothing else is asked for."""


@dataclass(frozen=True)
class Use:
    """The use of a model: `streams` texts at once of at most `context` tokens.

    With `exact`, up to `rows` prompts are read together, and a leaf of `rows` rows is computed to compare bits;
    without, one prompt is read after another. Prompts of `rows` times the context are kept for later requests.
    """

    streams: int
    context: int
    rows: int
    exact: bool


@dataclass(frozen=True)
class Need:
    """Bytes: of the parameters, of the keys and values that are kept, and those needed to read prompts."""

    parameters: int
    kept: int
    reading: int

    @property
    def total(self) -> int:
        return self.parameters + self.kept + self.reading


def parameter_bytes(layout: Layout) -> int:
    """Return the bytes of all parameters as they are loaded."""
    return BYTES * layout.elements


def cache_bytes(model: ModelSpec, tokens: int) -> int:
    """Return the bytes of the keys and values of some tokens."""
    return 2 * BYTES * model.layers * model.kv_heads * model.head_width * tokens


def reading_bytes(model: ModelSpec, tokens: int) -> int:
    """Return the bytes that are needed to read some tokens together: keys and values twice, and one block's values."""
    block = 4 * model.width + 3 * model.hidden + 2 * model.attention_width
    return 2 * cache_bytes(model, tokens) + BYTES * block * tokens


def need_of(layout: Layout, use: Use) -> Need:
    """Return the need of a model for a use."""
    model, rows = layout.model, use.rows if use.exact else 1
    mask = (BYTES + 1) * rows * use.context**2 if use.exact and model.document_mask else 0
    return Need(
        parameters=parameter_bytes(layout),
        kept=cache_bytes(model, (use.streams + use.rows) * use.context),
        reading=reading_bytes(model, rows * use.context) + mask,
    )


def longest(layout: Layout, use: Use, available: int) -> int:
    """Return the longest context, a multiple of REGISTER below that of `use`, that fits into the bytes; 0 for none."""
    contexts = range(REGISTER, use.context, REGISTER)

    def total(context: int) -> int:
        return need_of(layout, Use(use.streams, context, use.rows, use.exact)).total

    fit = bisect_right(contexts, available, key=total)
    return contexts[fit - 1] if fit else 0
