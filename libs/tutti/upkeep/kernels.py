"""Doctor's report on native kernels: without them work is slow, not wrong."""

from collections.abc import Callable, Iterable

from tutti.chassis.service import Finding
from tutti.native.native import Kernel


def check(work: str, slower: str, natives: Iterable[Callable[[], Kernel]]) -> Callable[[], Finding]:
    """A check of a service; `work` is what it does by kernels, `slower` how it does that without them."""

    def finding() -> Finding:
        kernels = [native() for native in natives]
        missing = [kernel for kernel in kernels if kernel.library is None]
        if not missing:
            origin = "of this installation" if all(kernel.installed for kernel in kernels) else "compiled here"
            return Finding("kernel", True, f"{work} by kernels {origin}")
        names = ", ".join(kernel.name for kernel in missing)
        return Finding("kernel", True, f"{work} {slower} (without {names}): {missing[0].why_not}")

    return finding
