"""Devices: named, chosen, and tested for in one module."""

from pathlib import Path

import pytest
import torch

from tutti.model import device
from tutti.model.device import DeviceMissing

ROOT = Path(__file__).parents[3]


def test_a_name_says_kind_and_back_end() -> None:
    assert [device.is_device(name) for name in ("cpu", "cuda:0", "cuda:12", "cuda", "gpu", "cpu:0")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    assert (device.is_gpu("cuda:3"), device.is_gpu("cpu")) == (True, False)
    assert (device.kind_of("cuda:3"), device.backend_of("cuda:3"), device.backend_of("cpu")) == ("cuda", "nccl", "gloo")


def test_a_device_that_is_not_here_is_refused() -> None:
    device.select("cpu")
    with pytest.raises(DeviceMissing, match="there is no cuda:99 here, torch sees"):
        device.select("cuda:99")


def test_a_cpu_computes_in_float32_and_is_named_by_its_kind() -> None:
    cpu = torch.device("cpu")
    device.synchronize(cpu)
    device.deterministic(cpu, True)
    assert not torch.are_deterministic_algorithms_enabled()
    assert (device.compute_type(cpu), device.model_of(cpu)) == (torch.float32, "cpu")


def test_no_other_module_tests_for_a_kind_of_device() -> None:
    sources = [path for folder in ("libs", "services") for path in (ROOT / folder).rglob("*.py")]
    testing = [
        path
        for path in sources
        if not path.name.endswith("_test.py")
        and path.name != "device.py"
        and any(text in path.read_text() for text in ('"cuda"', "torch.cuda", '"nccl" if'))
    ]
    assert testing == []
