"""Tokenization: documents become token shards."""
