"""The calls that annotation answers."""
