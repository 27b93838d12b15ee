"""Forecast times and sizes in words, also those that are not known."""

from tutti.records import sizes

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
    return f"{how} {sizes.size(count)}".lstrip()
