"""The duration of a run or of a stage: from its start to its end, by the clock of the pipeline. Pure.

Promises: waits between stages and stops of the platform are included; what was reused took no time.
"""

from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.web.formats import duration


def seconds(found: Run | Stage, now: float | None = None) -> float:
    """Return a duration in seconds; without an end, until `now` in seconds since 1970, or 0."""
    if not found.HasField("started_at") or (isinstance(found, Stage) and found.reused):
        return 0.0
    if found.HasField("ended_at"):
        return max(0.0, (found.ended_at.ToNanoseconds() - found.started_at.ToNanoseconds()) / 1e9)
    return max(0.0, now - found.started_at.ToNanoseconds() / 1e9) if now is not None else 0.0


def taken(seconds: float, resumptions: int) -> str:
    """The duration of a stage, as text, with a note if it includes idle time."""
    return f"{duration(seconds)}{' with a stop in between' if resumptions else ''}"
