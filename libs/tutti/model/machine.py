"""The machine below the kernels: what decides the bits of a float and is known without torch.

An agent names its node by it, so that a gang is never placed over two machines that compute differently. Ranks compare
more, the kernel signature, once torch is there: equal machines can still differ in it, different ones always do.
"""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tutti.model.device import WORKSPACE_SWITCH, is_gpu, kind_of
from tutti.model.spec import Recorded

SWITCHES = ("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", WORKSPACE_SWITCH)
"""Environment variables that change what the libraries compute."""
CAPABILITY_SWITCH = "ATEN_CPU_CAPABILITY"
"""Chooses torch's own kernels; a kernel signature has their name instead."""
VECTORS = ("asimd", "avx", "amx", "fma", "f16c", "sve")
"""Prefixes of the names of the processor's vector extensions."""


@dataclass(frozen=True)
class MachineSignature(Recorded):
    """Canonical and comparable; `digest()` names it."""

    machine: str
    processor: str
    vectors: str
    devices: str
    torch: str
    numpy: str
    switches: str


def machine_signature(devices: Sequence[str], proc: Path = Path("/proc")) -> MachineSignature:
    """The signature of this machine; `devices` are those that ranks run on, such as "cpu" or "cuda:0"."""
    fields = _fields(proc / "cpuinfo")
    flags = fields.get("flags") or fields.get("Features", "")
    kinds = sorted({kind_of(device) for device in devices})
    return MachineSignature(
        machine=platform.machine(),
        processor=_processor(fields),
        vectors=" ".join(sorted(flag for flag in flags.split() if flag.startswith(VECTORS))),
        devices=", ".join([*kinds, *(_graphics(proc) if any(map(is_gpu, kinds)) else ())]),
        torch=version("torch"),
        numpy=version("numpy"),
        switches=switches((*SWITCHES, CAPABILITY_SWITCH)),
    )


def processor() -> str:
    """Vendor, family and model: the libraries choose their kernels by them."""
    return _processor(_fields(Path("/proc/cpuinfo")))


def switches(names: Sequence[str] = SWITCHES) -> str:
    """Those that are set, with their values."""
    return " ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)


def _processor(fields: dict[str, str]) -> str:
    known = [fields[key] for key in ("vendor_id", "cpu family", "model") if key in fields]
    return " ".join(known) or platform.processor() or "unknown"


def _fields(cpuinfo: Path) -> dict[str, str]:
    """Fields of the first processor."""
    fields: dict[str, str] = {}
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else []:
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    return fields


def _graphics(proc: Path) -> list[str]:
    """The models of the NVIDIA devices, as their driver tells."""
    found = proc.glob("driver/nvidia/gpus/*/information")
    return sorted({_fields(path).get("Model", "unknown") for path in found})
