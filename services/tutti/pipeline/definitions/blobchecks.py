"""Blobs that a manifest names, and whether each is there as it says.

Promises: bytes are read a piece at a time.
"""

from dataclasses import dataclass

from blake3 import blake3

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.corpus.conversations.conversationset import Lines
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.records.canonical import content_digest, named, parse_json
from tutti.records.errors import CorpusError

_PIECE = 8 << 20
MAX_TOKENIZER_BYTES = 256 << 20


@dataclass(frozen=True)
class Expected:
    """A blob that a manifest names: its size in bytes and the digest of its bytes, where they are to be compared.

    `own` is False for a blob that another stage wrote.
    """

    key: str
    size: int | None = None
    digest: str = ""
    own: bool = True

    @classmethod
    def by_digest(cls, key: str) -> "Expected":
        """A blob whose key ends in the digest of its bytes."""
        return cls(key, digest=f"blake3:{key.rpartition('/')[2].partition('.')[0]}")

    @classmethod
    def lines(cls, lines: Lines) -> "Expected":
        """A blob of JSON lines."""
        return cls(lines.blob, lines.bytes, lines.bytes_digest)

    def lacks(self, blobs: Blobs) -> str:
        """A message about the defect of a blob; "" if there is none."""
        try:
            size = blobs.stat(self.key).size
            if self.size is not None and size != self.size:
                return f"{self.key} has {size} bytes, expected {self.size}"
            seen = _bytes_digest(blobs, self.key, size) if self.digest else ""
        except BlobMissing:
            return f"{self.key} is gone"
        return f"{self.key} is damaged: its bytes are {seen}, expected {self.digest}" if seen != self.digest else ""

    def written(self, blobs: Blobs) -> int:
        """Bytes that the stage wrote for it. Raises BlobMissing."""
        if not self.own:
            return 0
        return self.size if self.size is not None else blobs.stat(self.key).size


@dataclass(frozen=True)
class ExpectedTokenizer:
    """The tokenizer of a dataset, which is named by the content of its JSON."""

    version: str

    def lacks(self, blobs: Blobs) -> str:
        key = tokenizer_key(self.version)
        try:
            if (size := blobs.stat(key).size) > MAX_TOKENIZER_BYTES:
                return f"{key} has {size} bytes, expected at most {MAX_TOKENIZER_BYTES}"
            seen = content_digest(parse_json(blobs.get(key)), kind="tokenizer")
        except BlobMissing:
            return f"{key} is gone"
        except CorpusError as error:
            return f"{key} is damaged: {error}"
        return f"{key} is damaged: its content is {seen}, expected {self.version}" if seen != self.version else ""

    def written(self, blobs: Blobs) -> int:
        """It is not counted: the tokenizer may be an earlier one."""
        return 0


Checked = Expected | ExpectedTokenizer


def _bytes_digest(blobs: Blobs, key: str, size: int) -> str:
    state = blake3()
    for start in range(0, size, _PIECE):
        state.update(blobs.get_range(key, start, min(_PIECE, size - start)))
    return named(state)
