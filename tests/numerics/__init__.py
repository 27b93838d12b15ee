"""Proofs by real processes that the arithmetic does not know the topology."""
