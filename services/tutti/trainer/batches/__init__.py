"""Batches that are read from datasets."""
