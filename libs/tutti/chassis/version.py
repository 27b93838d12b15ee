"""The version of the product, and how a producer names itself in a manifest."""

from importlib.metadata import version as installed

VERSION = installed("tutti")


def producer(service: str) -> str:
    return f"tutti.{service} {VERSION}"
