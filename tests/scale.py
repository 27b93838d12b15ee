"""How much a campaign does: the small number in `make test`, the full one in `make soak`.

Guarantees: a commit always runs the same part of a campaign, and successive commits run different parts.
The variables have no names that begin with TUTTI_: those are settings, and Tutti refuses one that it does not know.
"""

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
SOAK = os.environ.get("CAMPAIGN_SCALE", "test") == "soak"
ROTATION = "CAMPAIGN_ROTATION"


def scale(*, test: int, soak: int) -> int:
    """The number of this run, for use inside a test or fixture: the summary of the suite shows it with both."""
    chosen = soak if SOAK else test
    print(f"scale: {chosen} (make test {test}, make soak {soak})")
    return chosen


@functools.cache
def rotation() -> int:
    """The number of commits up to HEAD, or CAMPAIGN_ROTATION; 0 outside of a git repository.

    A shallow clone does not have these commits, and takes a number from the digest of HEAD.
    """
    if given := os.environ.get(ROTATION):
        return int(given)
    try:
        if _git("rev-parse", "--is-shallow-repository") == "true":
            return int(_git("rev-parse", "HEAD")[:8], 16)
        return int(_git("rev-list", "--count", "HEAD"))
    except (OSError, subprocess.CalledProcessError):
        return 0


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    return done.stdout.strip()


def rotated(items: Sequence[T], *, test: int) -> list[T]:
    """Return all items in `make soak`, else about `test` of them at equal distances, other ones after each commit."""
    stride = 1 if SOAK else max(1, len(items) // test)
    chosen = list(items[rotation() % stride :: stride])
    print(f"scale: {len(chosen)} (make test {test}, make soak {len(items)})")
    print(f"chosen by {ROTATION}={rotation()}")
    return chosen


def parts(count: int) -> pytest.MarkDecorator:
    """Parametrizes a test by `part`, the numbers below `count`, which several workers may take (`tests.spreading`)."""
    return pytest.mark.parametrize("part", [pytest.param(part, id=f"part{part}") for part in range(count)])
