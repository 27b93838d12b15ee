"""The start settings of an I/O child."""

import json
from dataclasses import asdict, dataclass
from typing import Self

from tutti.checkpoints.keys import IMPORTS, MANIFESTS, REPORTS, SHARDS

OWNER = "trainer"
READS = (
    "annotation/",
    IMPORTS,
    MANIFESTS,
    "ingest/conversations/",
    "tokenization/",
    REPORTS,
    SHARDS,
)
"""Prefixes of the blobs that an agent reads: datasets, tokenizers, lines, and checkpoints of every node."""


@dataclass(frozen=True)
class IoSettings:
    """JSON on the child's standard input, because the URL of the blobs may hold a secret."""

    node: str
    blobs: str
    state: str
    buffers: str
    spool: int = 4

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))
