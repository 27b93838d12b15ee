"""How much a campaign does: the small number in `make test`, the full one in `make soak`.

The variable has no name that begins with TUTTI_: those are settings, and Tutti refuses one that it does not know.
"""

import os

import pytest

SOAK = os.environ.get("CAMPAIGN_SCALE", "test") == "soak"


def scale(*, test: int, soak: int) -> int:
    """The number of this run, for use inside a test or fixture: the summary of the suite shows it with both."""
    chosen = soak if SOAK else test
    print(f"scale: {chosen} (make test {test}, make soak {soak})")
    return chosen


def parts(count: int) -> pytest.MarkDecorator:
    """Parametrizes a test by `part`, the numbers below `count`, which several workers may take (`tests.spreading`)."""
    return pytest.mark.parametrize("part", [pytest.param(part, id=f"part{part}") for part in range(count)])
