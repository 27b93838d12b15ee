"""Units: what one worker of the suite takes at once.

From the names of tests alone: marks of groups no longer reach the master with pytest 9.2 and pytest-xdist 3.8.
"""

import re

_PART = re.compile(r"[\[-](part\d+)[\]-]")


def unit(nodeid: str) -> str:
    """The module of a test; of a campaign in parts (`tests.scale.parts`) one part of it."""
    module, _, test = nodeid.partition("::")
    part = _PART.search(test)
    return f"{module}[{part[1]}]" if part else module
