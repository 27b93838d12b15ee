"""Devices: what follows from the name of the one that a rank computes on, such as "cpu" or "cuda:0".

This is the only module that tests for a kind of device. Importing it does not import torch.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_GPU = "cuda"
NAMES = "cpu or cuda:N"
WORKSPACE_SWITCH = "CUBLAS_WORKSPACE_CONFIG"


class DeviceMissing(Exception):
    """This machine does not have the device."""


def is_device(name: str) -> bool:
    """True if this is the name of a device."""
    return re.fullmatch(rf"cpu|{_GPU}:\d+", name) is not None


def kind_of(name: str) -> str:
    """The kind of a device, without its number."""
    return name.partition(":")[0]


def is_gpu(name: str) -> bool:
    return kind_of(name) == _GPU


def backend_of(name: str) -> str:
    """The back end of torch.distributed for ranks on devices of this kind."""
    return "nccl" if is_gpu(name) else "gloo"


def select(name: str) -> None:
    """Make it this process's current device. Raises DeviceMissing."""
    if not is_gpu(name):
        return
    import torch

    seen = torch.cuda.device_count()
    if int(name.partition(":")[2] or 0) >= seen:
        raise DeviceMissing(f"there is no {name} here, torch sees {seen} CUDA devices")
    torch.cuda.set_device(torch.device(name))


def compute_type(device: torch.device) -> torch.dtype:
    """The type that forward and backward are computed in."""
    import torch

    return torch.bfloat16 if is_gpu(device.type) else torch.float32


def parity_nats(device: torch.device) -> float:
    """The largest difference, in nats, of a token's log-probability when it is computed in batches of two shapes.

    0 on CPUs, where the kernels of ours sum in one order. On GPUs, the order follows from the shape of a product.
    """
    return 0.25 if is_gpu(device.type) else 0.0


def deterministic(device: torch.device, wanted: bool) -> None:
    """Let this process compute the same bits again, or as fast as it can. On CPUs, every operation of ours repeats.

    cuBLAS repeats its sums only with a workspace of a fixed size, which must be known before its first product.
    """
    import torch

    if is_gpu(device.type):
        if wanted:
            os.environ.setdefault(WORKSPACE_SWITCH, ":4096:8")
        torch.use_deterministic_algorithms(wanted)


def logits_at_once(device: torch.device) -> int:
    """Logits alive at a time: those that a processor's cache holds, or those that keep a GPU busy. Part of the
    arithmetic: it decides where sums of the output matrix's gradient are cut.
    """
    return 1 << 26 if is_gpu(device.type) else 1 << 19


def add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Add left @ right to `total`, which has their type or float32. No product is rounded before it is added."""
    import torch

    if total.dtype == left.dtype:
        total.addmm_(left, right)
    elif is_gpu(total.device.type):
        total.add_(torch.mm(left, right, out_dtype=total.dtype))
    else:
        total.addmm_(left.to(total.dtype), right.to(total.dtype))


def updated_at_once(device: torch.device) -> int:
    """Elements that an update takes at a time; decides no bit."""
    return 1 << 26 if is_gpu(device.type) else 1 << 18


def model_of(device: torch.device) -> str:
    """The model name of the device, for the kernel signature."""
    import torch

    return torch.cuda.get_device_name(device) if is_gpu(device.type) else device.type


def synchronize(device: torch.device) -> None:
    """Wait for what was started on it, so that time can be taken."""
    import torch

    if is_gpu(device.type):
        torch.cuda.synchronize(device)


class Clock:
    """Splits the wall time of work on a device into laps."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._last = device, time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the lap before, after all work on the device has ended."""
        synchronize(self._device)
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds
