"""Write the revisions that the tables of this tree need: `python tools/migration.py "what changes"`.

Each service has a history of revisions in services/tutti/NAME/migrations. A revision is written for every service whose
tables, those of the chassis included, differ from what its history makes. Read it before you commit it: a renamed
column looks like one that was dropped and one that was added.

Promises: `--check` writes nothing and fails when a service lacks a revision.
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
from tutti.chassis.simulation import Simulation
from tutti.chassis.simulation.effects import EFFECTS

TEMPLATE = '''"""{message}."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "{revision}"
down_revision = {down}
{types}


def upgrade(op: Operations) -> None:
{body}
'''


TYPES = {
    "NAME": "sa.String().with_variant(sa.String(collation='C'), 'postgresql')",
    "SERIAL": "sa.BigInteger().with_variant(sa.Integer(), 'sqlite')",
}
"""Names in a revision for the types that recur (tutti.chassis.store.tables)."""


def tables() -> Iterator[tuple[str, MetaData]]:
    """The tables of every service of this tree."""
    with Simulation(0, builds()) as simulation:
        for name, lives in simulation.lives.items():
            metadata = lives[0].parts.host.metadata
            metadata.remove(metadata.tables[EFFECTS])
            yield name, metadata


def history(service: str) -> Path:
    return ROOT / "services" / "tutti" / service / "migrations"


def differences(connection: Connection, metadata: MetaData) -> MigrationScript:
    """What brings the tables of a database to those of `metadata`."""
    context = MigrationContext.configure(connection, opts={"include_name": _is_real})
    return produce_migrations(context, metadata)


def _is_real(name: str | None, *_: object) -> bool:
    return name != "alembic_version"


def missing(service: str, metadata: MetaData) -> UpgradeOps | None:
    """What the history of a service lacks; None for nothing."""
    with create_engine("sqlite://").begin() as connection:
        if history(service).is_dir():
            migrations.upgrade(connection, history(service))
        found = differences(connection, metadata).upgrade_ops
    return found if found is not None and not found.is_empty() else None


def write(service: str, ops: UpgradeOps, message: str) -> Path:
    """Write the next revision of a service."""
    folder = history(service)
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text(f'"""The history of the tables of {service}."""\n')
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
    down = repr(known[-1]) if known else "None"
    path.write_text(TEMPLATE.format(message=message, revision=revision, down=down, types=types, body=body))
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
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a service lacks a revision")
    arguments = parser.parse_args()
    lacking = {service: found for service, metadata in tables() if (found := missing(service, metadata))}
    if arguments.check:
        if lacking:
            sys.exit(f"{', '.join(lacking)}: tables without a revision; run tools/migration.py MESSAGE")
        return
    if lacking and not arguments.message:
        parser.error("say what changes")
    for service, ops in lacking.items():
        print(f"wrote {write(service, ops, arguments.message).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
