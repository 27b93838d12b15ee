"""The pages of the end-to-end tests, and a run of them that is done."""

from tests.e2e.conftest import finished, pages, served, states_of_a_long_run

__all__ = ["finished", "pages", "served", "states_of_a_long_run"]
