"""How much a campaign does: the small number in `make test`, the full one in `make soak`."""

import os

SOAK = os.environ.get("TUTTI_SCALE", "test") == "soak"


def scale(*, test: int, soak: int) -> int:
    """The number of this run; both are printed with it, so that a reader sees which it was."""
    chosen = soak if SOAK else test
    print(f"scale: {chosen} (make test {test}, make soak {soak})")
    return chosen
