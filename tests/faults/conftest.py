"""The pages of the end-to-end tests."""

from tests.e2e.conftest import pages

__all__ = ["pages"]
