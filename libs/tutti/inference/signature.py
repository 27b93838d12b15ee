"""The engine signature: all that decides the bits of a completion beside the model and the request.

Engines with equal signatures and equal weights continue each other's completions. In exact mode the continuation has
the tokens and the bits that the first engine would have chosen. Does not import torch.
"""

from dataclasses import dataclass

from tutti.model.spec import Recorded


@dataclass(frozen=True)
class EngineSignature(Recorded):
    """Canonical and comparable; `digest()` names it.

    `kernel` is the digest of the kernel signature, `model` that of the parameters, `mode` a value of
    `tutti.inference.engine.Mode`. `length`, `rows`, `query_rows` and `shared` are those of the slots. `slots` is their
    number where the bits depend on it, which is everywhere but in exact mode on a CPU; there it is 0.
    """

    kernel: str
    model: str
    mode: str
    length: int
    rows: int
    query_rows: int
    shared: bool
    slots: int
