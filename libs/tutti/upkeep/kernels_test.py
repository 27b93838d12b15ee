"""What the doctor says of kernels."""

import ctypes
from dataclasses import replace

from tutti.native.native import Kernel
from tutti.upkeep.kernels import check

THERE, AWAY = Kernel("minhash", ctypes.CDLL(None), ""), Kernel("bpe", None, "no C compiler on the PATH")


def test_a_kernel_that_is_missing_is_slow_and_no_fault() -> None:
    found = check("texts are encoded", "by Python, slower", (lambda: THERE, lambda: AWAY))()
    assert found.ok
    assert found.message == "texts are encoded by Python, slower (without bpe): no C compiler on the PATH"


def test_the_doctor_tells_kernels_of_the_wheel_from_those_compiled_here() -> None:
    def message(kernel: Kernel) -> str:
        return check("texts are encoded", "slower", (lambda: kernel,))().message

    assert message(THERE) == "texts are encoded by kernels compiled here"
    assert message(replace(THERE, installed=True)) == "texts are encoded by kernels of this installation"
