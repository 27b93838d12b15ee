"""Names of replicas in a data directory. Imports nothing heavy."""


def announced(name: str) -> str:
    """Return the name of a replica's file in `endpoints` of the data directory, and of its lock and log."""
    return f"replica-{name}"
