"""What the doctor says of kernels."""

import ctypes

from tutti.chassis.kernels import check
from tutti.corpus.native import Kernel

THERE, AWAY = Kernel("minhash", ctypes.CDLL(None), ""), Kernel("bpe", None, "no C compiler on the PATH")


def test_a_kernel_that_is_missing_is_slow_and_no_fault() -> None:
    found = check("texts are encoded", "by Python, slower", (lambda: THERE, lambda: AWAY))()
    assert found.ok
    assert found.message == "texts are encoded by Python, slower (without bpe): no C compiler on the PATH"
    assert check("texts are encoded", "slower", (lambda: THERE,))().message == "texts are encoded by compiled kernels"
