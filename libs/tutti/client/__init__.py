"""The typed Python client: every service of a platform behind one object, above the chassis and below the command."""

from tutti.client.client import READING_SECONDS, Client, Problem, Unreachable, connect

__all__ = ["READING_SECONDS", "Client", "Problem", "Unreachable", "connect"]
