"""The errors of the corpus.

Each says what was seen, what was expected and what to do.
"""


class CorpusError(Exception):
    """Base of every error that this library raises on purpose."""


class NotCanonical(CorpusError):
    """A value has no canonical JSON form: it cannot be named by a digest."""


class CorruptShard(CorpusError):
    """The bytes of a shard are not the bytes that were written."""

    def __init__(self, *, shard: str, section: str, seen: str, expected: str) -> None:
        super().__init__(
            f"{shard}: {section} is damaged: seen {seen}, expected {expected}; "
            "fetch the blob again, or delete it and run the stage that made it"
        )
        self.shard = shard
        self.section = section
        self.seen = seen
        self.expected = expected


class UnsupportedFormat(CorpusError):
    """The file is of another kind, or was written by a newer version than this one."""


class InvalidManifest(CorpusError):
    """A manifest does not have the form that its kind promises."""


class InvalidSpan(CorpusError):
    """A span or ledger describes no possible order of samples."""


class UnknownSample(CorpusError):
    """A sample or document was asked for that this dataset does not hold."""
