"""A committer over real stores, for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tutti.committer.rehearsal_test import Rehearsal


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rehearsal]:
    found = Rehearsal(tmp_path)
    yield found
    found.close()
