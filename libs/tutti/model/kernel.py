"""The kernel signature: everything below our code that decides the bits of a float.

Law 3 holds between runs of one signature. It is recorded with a checkpoint, and ranks with different ones refuse to
step together.
"""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tutti.model.spec import Recorded, StepSpec

SWITCHES = ("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "CUBLAS_WORKSPACE_CONFIG")
"""Environment variables that change what the libraries compute."""


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


def kernel_signature(step: StepSpec, device: torch.device) -> KernelSignature:
    """What this process would compute with. `switches` holds only variables that are set."""
    return KernelSignature(
        machine=platform.machine(),
        processor=_processor(),
        capability=torch.backends.cpu.get_cpu_capability(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        torch=torch.__version__,
        numpy=np.__version__,
        blas="mkl" if torch.backends.mkl.is_available() else "other",  # type: ignore[no-untyped-call]
        attention=f"sdpa-{device.type}",
        switches=" ".join(f"{name}={os.environ[name]}" for name in SWITCHES if name in os.environ),
        threads=step.threads,
        compile=step.compile,
        exact=step.exact,
    )


def _processor() -> str:
    """Vendor, family and model: the libraries choose their kernels by them."""
    fields: dict[str, str] = {}
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else []:
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    known = [fields[key] for key in ("vendor_id", "cpu family", "model") if key in fields]
    return " ".join(known) or platform.processor() or "unknown"
