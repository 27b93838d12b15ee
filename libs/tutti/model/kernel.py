"""The kernel signature: everything below our code that decides the bits of a float.

Law 3 holds between runs of one signature. It is recorded with a checkpoint, and ranks with different ones refuse to
step together.
"""

import platform
from dataclasses import dataclass

import numpy as np
import torch

from tutti.model.device import compute_type, model_of
from tutti.model.head import sum_type
from tutti.model.machine import processor, switches
from tutti.model.spec import Recorded, StepSpec
from tutti.records.records import later


@dataclass(frozen=True)
class KernelSignature(Recorded):
    """Canonical and comparable; `digest()` names it."""

    machine: str
    processor: str
    capability: str
    device: str
    torch: str
    numpy: str
    blas: str
    attention: str
    switches: str
    threads: int
    compile: bool
    exact: bool
    head_sum: str = later("", since="0.3")
    """The type that the output matrix's gradient is added up in, where it is not that of the matrix."""


def kernel_signature(step: StepSpec, device: torch.device) -> KernelSignature:
    """The kernel signature of this process. `switches` holds only variables that are set."""
    return KernelSignature(
        machine=platform.machine(),
        processor=processor(),
        capability=torch.backends.cpu.get_cpu_capability(),
        device=model_of(device),
        torch=torch.__version__,
        numpy=np.__version__,
        blas="mkl" if torch.backends.mkl.is_available() else "other",  # type: ignore[no-untyped-call]
        attention=f"sdpa-{device.type}",
        switches=switches(),
        threads=step.threads,
        compile=step.compile,
        exact=step.exact,
        head_sum=sum_type(compute_type(device)),
    )
