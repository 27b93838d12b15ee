"""Times of messages, as the JSON beside a page has them. Pure."""

from google.protobuf.timestamp_pb2 import Timestamp

from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.pipeline.v1 import Run, RunLabels


def moment_of(message: Run | RunLabels | Checkpoint, field: str) -> str:
    """A time in ISO 8601 in UTC; empty where there is none."""
    stamp: Timestamp = getattr(message, field)
    return stamp.ToJsonString() if message.HasField(field) else ""  # type: ignore[arg-type]
