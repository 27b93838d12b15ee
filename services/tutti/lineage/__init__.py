"""Lineage: where a thing came from, and what came of it."""
