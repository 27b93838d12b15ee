"""The form of a file, by its name."""

LINES = (".jsonl", ".ndjson")
"""Endings of JSON lines."""
RECORDS = (*LINES, ".json", ".parquet")
"""Endings of files whose records have their texts in a field."""


def unpacked(path: str) -> str:
    """Return the name in small letters without the ending of its compression."""
    return path.lower().removesuffix(".gz").removesuffix(".zst")
