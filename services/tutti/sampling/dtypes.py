"""The types of numbers of exported weights, without an import, as the command line shows them."""

DTYPES = ("float32", "bfloat16")
"""The first is the default."""
