"""Write the revisions that the tables of this tree need: `python tools/migration.py "what changes"`.

Each service has a history of revisions in services/tutti/NAME/migrations, and the chassis has one in
libs/tutti/chassis/migrations. A revision is written for each of them whose tables differ from what its history makes.
Read it before you commit it: a renamed column looks like one that was dropped and one that was added.

Promises: `--check` writes nothing and fails when a history lacks a revision.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from alembic.operations.ops import CreateIndexOp, CreateTableOp, MigrationScript, ModifyTableOps, UpgradeOps
from sqlalchemy import Connection, MetaData, create_engine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.pages import ROOT, builds

from tutti.backbone import migrations
from tutti.backbone.migrations import History
from tutti.chassis.store.tables import tables_of
from tutti.simulation import Simulation
from tutti.simulation.effects import EFFECTS

TEMPLATE = '''"""{message}."""

import sqlalchemy as sa
from alembic.operations import Operations

{types}


def upgrade(op: Operations) -> None:
{body}
'''


TYPES = {
    "NAME": "sa.String().with_variant(sa.String(collation='C'), 'postgresql')",
    "SERIAL": "sa.BigInteger().with_variant(sa.Integer(), 'sqlite')",
}
"""Names in a revision for the types that recur (tutti.chassis.store.tables)."""


CHASSIS = "chassis"


def tables() -> Iterator[tuple[str, MetaData]]:
    """The tables of the chassis, and those of every service of this tree, by its name."""
    chassis = MetaData()
    tables_of(chassis)
    yield CHASSIS, chassis
    with Simulation(0, builds()) as simulation:
        for name, lives in simulation.lives.items():
            own = MetaData()
            for table in lives[0].parts.host.metadata.sorted_tables:
                if table.name not in {EFFECTS, *chassis.tables}:
                    table.to_metadata(own)
            yield name, own


def history(owner: str) -> Path:
    """Return the folder with the revisions of a service, or of the chassis."""
    return ROOT / ("libs" if owner == CHASSIS else "services") / "tutti" / owner / "migrations"


def differences(connection: Connection, metadata: MetaData) -> MigrationScript:
    """What brings the tables of a database to those of `metadata`."""
    return produce_migrations(MigrationContext.configure(connection), metadata)


def missing(owner: str, metadata: MetaData) -> UpgradeOps | None:
    """The operations that a history lacks; None if it lacks none."""
    with create_engine("sqlite://").begin() as connection:
        migrations.upgrade(connection, History(history(owner), owner))
        found = differences(connection, metadata).upgrade_ops
    return found if found is not None and not found.is_empty() else None


def write(owner: str, ops: UpgradeOps, message: str) -> Path:
    """Write the next revision of a history."""
    folder = history(owner)
    if not folder.is_dir():
        folder.mkdir()
        (folder / "__init__.py").write_text(f'"""The history of the tables of {owner}."""\n')
    known = sorted(path.stem.partition("_")[0] for path in folder.glob("[0-9]*.py"))
    revision = f"{int(known[-1]) + 1 if known else 1:04}"
    if not known:
        _tolerate_existing(ops)
    slug = re.sub(r"[^a-z0-9]+", "_", message.lower()).strip("_")[:40]
    lines = (line for line in render_python_code(ops).splitlines() if line.strip() and not line.strip().startswith("#"))
    body = indent("\n".join(lines), "    ")
    path = folder / f"{revision}_{slug}.py"
    types = ""
    for name, code in TYPES.items():
        if code in body:
            types, body = f"{types}{name} = {code}\n", body.replace(code, name)
    path.write_text(TEMPLATE.format(message=message, types=types, body=body))
    subprocess.run([Path(sys.executable).parent / "ruff", "format", "--quiet", str(path)], cwd=ROOT, check=True)
    return path


def _tolerate_existing(ops: UpgradeOps | ModifyTableOps) -> None:
    """Databases from before the first revision have some of its tables."""
    for op in ops.ops:
        if isinstance(op, CreateTableOp | CreateIndexOp):
            op.if_not_exists = True
        elif isinstance(op, ModifyTableOps):
            _tolerate_existing(op)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("message", nargs="?", default="", help='what changes, such as "Add the priority of a job"')
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a history lacks a revision")
    arguments = parser.parse_args()
    lacking = {owner: found for owner, metadata in tables() if (found := missing(owner, metadata))}
    if arguments.check:
        if lacking:
            sys.exit(f"{', '.join(lacking)}: tables without a revision; run tools/migration.py MESSAGE")
        return
    if lacking and not arguments.message:
        parser.error("say what changes")
    for owner, ops in lacking.items():
        print(f"wrote {write(owner, ops, arguments.message).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
