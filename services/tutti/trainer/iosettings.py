"""The start settings of an I/O child."""

import json
from dataclasses import asdict, dataclass
from typing import Self

OWNER = "trainer"
READS = ("annotation", "committer", "ingest", "tokenization")
"""The owners whose blobs an agent reads, beside its own."""


@dataclass(frozen=True)
class IoSettings:
    """JSON on the child's standard input, because the URL of the blobs may hold a secret."""

    blobs: str
    state: str
    buffers: str
    spool: int = 4

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))
