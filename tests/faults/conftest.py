"""The pages of the end-to-end tests, and a run of them that is done."""

from tests.e2e.conftest import finished, pages

__all__ = ["finished", "pages"]
