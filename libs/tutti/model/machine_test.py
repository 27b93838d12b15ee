"""What names a machine: equal ones alike, and any that may compute otherwise differently."""

from pathlib import Path

import pytest

from tutti.model.machine import MachineSignature, machine_signature, processor

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
flags\t\t: fpu avx avx2 avx512f fma sse2

processor\t: 1
vendor_id\t: GenuineIntel
"""


def signature(folder: Path, cpuinfo: str = CPUINFO, devices: tuple[str, ...] = ("cpu",)) -> MachineSignature:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpuinfo").write_text(cpuinfo)
    return machine_signature(devices, folder)


def test_a_machine_is_named_by_what_its_libraries_choose_kernels_by(tmp_path: Path) -> None:
    found = signature(tmp_path)
    assert (found.processor, found.vectors, found.devices) == ("GenuineIntel 6 85", "avx avx2 avx512f fma", "cpu")
    assert found == signature(tmp_path / "other")
    assert processor() == machine_signature(("cpu",)).processor


@pytest.mark.parametrize(("old", "new"), [("85", "106"), (" avx512f", ""), ("GenuineIntel", "AuthenticAMD")])
def test_another_processor_is_another_machine(old: str, new: str, tmp_path: Path) -> None:
    assert signature(tmp_path).digest() != signature(tmp_path, CPUINFO.replace(old, new)).digest()


def test_a_switch_of_the_libraries_makes_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    before = signature(tmp_path)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert signature(tmp_path).digest() != before.digest()


def test_graphics_devices_count_where_ranks_run_on_them(tmp_path: Path) -> None:
    plain = signature(tmp_path)
    for bus, model in (("0000:1a:00.0", "NVIDIA H200"), ("0000:1b:00.0", "NVIDIA H200")):
        folder = tmp_path / "driver/nvidia/gpus" / bus
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 1\n")
    assert signature(tmp_path) == plain
    assert signature(tmp_path, devices=("cuda:0", "cuda:1")).devices == "cuda, NVIDIA H200"
