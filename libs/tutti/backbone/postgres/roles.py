"""Roles in Postgres: one for each service, which owns the schema of that service.

Promises: idempotent; a role can create its own schema and cannot read another's.
"""

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import sql

from tutti.backbone.postgres.views import READER

CONNECT_SECONDS = 10


def ensure_roles(admin_url: str, passwords: Mapping[str, str]) -> None:
    """Let each role log in with its password; roles that are missing are made. Raises psycopg.Error."""
    with psycopg.connect(admin_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
        database = sql.Identifier(connection.info.dbname)
        existing = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles").fetchall()}
        for name, password in passwords.items():
            role, verb = sql.Identifier(name), sql.SQL("ALTER" if name in existing else "CREATE")
            connection.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, role, sql.Literal(password)))
            connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, role))


def ensure_member(admin_url: str, role: str, password: str, of: Sequence[str]) -> None:
    """Let a role log in that may do what each role of `of` may, such as copy all schemas. Raises psycopg.Error."""
    ensure_roles(admin_url, {role: password})
    with psycopg.connect(admin_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
        for each in of:
            connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(each), sql.Identifier(role)))


def ensure_reader(admin_url: str, password: str) -> None:
    """Let the role `reader` log in, which reads the views of all services and writes nothing. Raises psycopg.Error."""
    ensure_roles(admin_url, {READER: password})
    with psycopg.connect(admin_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
        run, role = connection.execute, sql.Identifier(READER)
        run(sql.SQL("REVOKE CREATE ON DATABASE {} FROM {}").format(sql.Identifier(connection.info.dbname), role))
        run(sql.SQL("ALTER ROLE {} SET default_transaction_read_only = on").format(role))
        run(sql.SQL("ALTER ROLE {} SET statement_timeout = '60s'").format(role))
        run(sql.SQL("ALTER ROLE {} CONNECTION LIMIT 10").format(role))
        found = run("SELECT nspname FROM pg_namespace WHERE nspname LIKE '%\\_views'").fetchall()
        for schema in (sql.Identifier(name) for (name,) in found):
            run(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, role))
            run(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(schema, role))
