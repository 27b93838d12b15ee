"""The location of the pages of each ingest, or of the hosts of each crawl, in a separate table.

Promises: an absolute path, or an address, of this machine stays here; no resource, event or reason holds it.
"""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Column, MetaData, String, Text, insert, select, update

from tutti.chassis.config.roots import Roots
from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.tables import declare
from tutti.chassis.store.unit import Unit


class Paths:
    """`roots`: the folders under which inputs may be; none given: anywhere, for the owner alone."""

    def __init__(self, metadata: MetaData, roots: Sequence[str] = ()) -> None:
        self._roots = Roots(roots, "ingest.roots")
        self.roots = self._roots.folders
        self.table = declare(
            "paths",
            metadata,
            Column("ingest", String(400), primary_key=True),
            Column("path", Text, nullable=False),
        )

    def check(self, path: str, principal: Principal) -> None:
        """Raise InvalidField unless a request of `principal` may name this folder; links are followed.

        A folder may be replaced later: readers compare it with `roots` when they begin.
        """
        self._roots.resolved("spec.input_path", folder(path), "folder", principal)

    def keep(self, unit: Unit, ingest: str, path: str) -> None:
        """Record the path of an ingest, or of a crawl its hosts as JSON; the newest one stays."""
        changed = unit.tx.execute(update(self.table).where(self.table.c.ingest == ingest).values(path=path))
        if changed.rowcount == 0:
            unit.tx.execute(insert(self.table).values(ingest=ingest, path=path))

    def find(self, unit: Unit, ingest: str) -> str:
        """The path, or "" for what is not known."""
        row = unit.tx.execute(select(self.table.c.path).where(self.table.c.ingest == ingest)).first()
        return str(row.path) if row else ""


def folder(path: str) -> Path:
    """The folder that a spec names. Raises InvalidField."""
    found = Path(path)
    if not found.is_absolute() or "\0" in path:
        raise InvalidField("spec.input_path", seen=path or "nothing", expected="an absolute path of a folder")
    return found
