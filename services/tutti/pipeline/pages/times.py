"""Times of messages, as the JSON beside a page has them. Pure."""

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.pipeline.v1 import Run, RunLabels, Stage


def moment_of(message: Run | RunLabels | Checkpoint, field: str) -> str:
    """A time in ISO 8601 in UTC; empty where there is none."""
    stamp: Timestamp = getattr(message, field)
    return stamp.ToJsonString() if message.HasField(field) else ""  # type: ignore[arg-type]


def seconds_of(message: Run | Stage, now: datetime) -> float:
    """The duration until the end, or until now."""
    if not message.HasField("started_at"):
        return 0.0
    until = message.ended_at.ToNanoseconds() / 1e9 if message.HasField("ended_at") else now.timestamp()
    return max(0.0, until - message.started_at.ToNanoseconds() / 1e9)
