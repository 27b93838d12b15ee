"""What a test needs of the machine and does not find there."""

import os
from typing import NoReturn

import pytest


def lacking(words: str) -> NoReturn:
    """Skip the test, saying what it needs; with CI set, where all of it has to be, let it fail."""
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)
