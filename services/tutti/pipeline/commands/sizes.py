"""Times and sizes in words."""

UNKNOWN, SHORT_SECONDS = "not known", 0.1


def duration(seconds: float | None) -> str:
    """About how long, in words."""
    if seconds is None:
        return UNKNOWN
    if seconds < SHORT_SECONDS:
        return f"under {SHORT_SECONDS:g} s"
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def size(count: float | None, how: str = "") -> str:
    """A number of bytes as text, after `how` reliable it is."""
    if count is None:
        return UNKNOWN
    for unit, length in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{how} {count / length:.1f} {unit}".lstrip()
    return f"{how} {count:.0f} bytes".lstrip()
