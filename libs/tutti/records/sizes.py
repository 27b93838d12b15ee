"""Numbers of bytes in words, for commands, pages and reasons.

Promises: one unit system everywhere, that of memory: a KiB has 1,024 bytes.
"""

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(nbytes: float) -> str:
    """A number of bytes, not negative, such as "1.5 GiB"; below a KiB without a fraction."""
    return next((f"{nbytes / unit:,.1f} {name}" for unit, name in _UNITS if nbytes >= unit), f"{nbytes:.0f} B")
