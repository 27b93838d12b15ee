"""Lost contact: the errors of a collective that say that a connection to another rank has ended.

Promises: only a connection that was closed, reset or timed out counts. Every other error of a back end, such as one of
CUDA or of the driver, is an error of the rank that raises it, whichever words it contains. The back ends have no types
for this difference, so their messages decide.
"""

import re

import torch

_OWN = re.compile(r"cuda (error|failure|driver|runtime)|unhandled[ _]?cuda|cuda call|cublas|cudnn|\bxid\b|hip error")
_ENDED = re.compile(
    r"connection (was )?(likely )?(closed|reset|refused|aborted|timed out)"
    r"|closed by (remote )?peer|connection closed|broken pipe|software caused connection abort"
    r"|ncclremoteerror|remote process exited"
    r"|(socket|connect|connection|wait|read|recv|send|collective operation|operation|client socket)"
    r"( has)? ?time(d ?)?out|timed out (after \d+ ?m?s )?(waiting|trying)|application timeout"
)


def lost_contact(error: BaseException) -> bool:
    """True if a collective or a store failed because a connection to another rank ended."""
    if not isinstance(error, RuntimeError) or isinstance(error, torch.AcceleratorError):
        return False
    words = str(error).lower()
    return _OWN.search(words) is None and _ENDED.search(words) is not None
