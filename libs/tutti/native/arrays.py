"""numpy and pyarrow under their usual names, imported when they are first used.

A process of a service imports its work at start, and may never do any. A module that is imported there uses these names
inside functions only, and quotes them in type aliases:

    from tutti.native.arrays import np, npt

    Integers: TypeAlias = "npt.NDArray[np.int64]"
"""

from typing import TYPE_CHECKING

from tutti.native.deferred import deferred

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    np = deferred("numpy")
    npt = deferred("numpy.typing")
    pa = deferred("pyarrow")
    pc = deferred("pyarrow.compute")
    pq = deferred("pyarrow.parquet")

__all__ = ["np", "npt", "pa", "pc", "pq"]
