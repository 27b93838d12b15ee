"""What the doctor says of native kernels: doing without is slow, not wrong."""

from collections.abc import Callable, Iterable

from tutti.chassis.service import Finding
from tutti.corpus.native import Kernel


def check(work: str, slower: str, natives: Iterable[Callable[[], Kernel]]) -> Callable[[], Finding]:
    """A check of a service; `work` is what it does by kernels, `slower` how it does that without them."""

    def finding() -> Finding:
        missing = [kernel for kernel in (native() for native in natives) if kernel.library is None]
        if not missing:
            return Finding("kernel", True, f"{work} by compiled kernels")
        names = ", ".join(kernel.name for kernel in missing)
        return Finding("kernel", True, f"{work} {slower} (without {names}): {missing[0].why_not}")

    return finding
