"""The histories of the tables in the database of a service: those of the chassis first, then the service's own.

Promises: a database whose chassis tables were made by the service's own history, as those up to version 0.2.0 were, is
adopted: the first revision of the chassis creates the tables that are missing, and leaves the others as they are.
"""

from importlib.util import find_spec
from pathlib import Path

from tutti.backbone.migrations import History

VERSIONS = "chassis_version"
"""The table with the revision of the chassis tables."""


def histories(service: str, own: Path | None) -> tuple[History, ...]:
    """Return the histories of a database, in their order; none for a service without revisions of its own."""
    if own is None:
        return ()
    return History(folder(), f"the chassis tables of {service}", VERSIONS), History(own, f"the tables of {service}")


def folder() -> Path:
    """Return the folder with the revisions of the chassis tables."""
    spec = find_spec("tutti.chassis.migrations")
    assert spec is not None
    return Path(next(iter(spec.submodule_search_locations or ())))
