"""Dedup: of documents that say the same, one stays."""
