"""Views for people: a schema beside that of a service, in which its rows can be read with SQL.

Promises: made anew only when they change, in the transaction of the caller; the role `reader` may read them and nothing
else; a service's own tables stay as they are.
"""

import hashlib
import json
from importlib.resources import files

from sqlalchemy import Connection, text

from tutti.backbone.database import Readable
from tutti.backbone.postgres import schemas

READER = "reader"
DECODE = files("tutti.backbone.postgres").joinpath("decode.sql").read_text(encoding="utf-8")


def views_of(schema: str) -> str:
    """Return the schema of the views on a schema."""
    return f"{schema}_views"


def publish(connection: Connection, schema: str, readable: Readable) -> None:
    """Make the views, unless they are these already."""
    views = views_of(schema)
    held = connection.execute(text("SELECT obj_description(to_regnamespace(:name), 'pg_namespace')"), {"name": views})
    if held.scalar() != (digest := _digest(readable)):
        withdraw(connection, schema)
        run = connection.exec_driver_sql
        schemas.ensure(connection, views)
        run(f"CREATE TABLE {views}.messages (type text PRIMARY KEY, fields jsonb NOT NULL, defaults jsonb NOT NULL)")
        rows = [
            {"type": name, "fields": json.dumps(fields), "defaults": json.dumps(defaults)}
            for name, (fields, defaults) in readable.messages.items()
        ]
        if rows:
            connection.execute(text(f"INSERT INTO {views}.messages VALUES (:type, :fields, :defaults)"), rows)  # noqa: S608
        run(DECODE.replace("{views}", views).replace("%", "%%"))
        for name, query in sorted(readable.views.items()):
            filled = query.replace("{views}", views).replace("{schema}", schema)
            run(f'CREATE VIEW {views}."{name}" AS {filled}'.replace("%", "%%"))
        run(f"COMMENT ON SCHEMA {views} IS '{digest}'")
    if connection.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": READER}).first():
        connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {views} TO {READER}")
        connection.exec_driver_sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA {views} TO {READER}")


def withdraw(connection: Connection, schema: str) -> None:
    """Remove the views: a table cannot change under a view that reads it."""
    schemas.empty(connection, views_of(schema))


def _digest(readable: Readable) -> str:
    content = json.dumps([DECODE, readable.messages, readable.views], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
