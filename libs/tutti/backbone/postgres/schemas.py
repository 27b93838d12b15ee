"""Schemas in Postgres, made where the role may make them, used where an administrator has made them for it.

Promises: a role without CREATE on the database needs its schemas to exist and to be its own, and nothing else.
"""

from sqlalchemy import Connection, text

from tutti.backbone.database import DatabaseUnavailable

_RIGHTS = """
SELECT current_user, current_database(), has_database_privilege(current_database(), 'CREATE'),
    (SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = :name)
"""
_CONTENTS = """
SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, quote_ident(c.relname)
FROM pg_class c WHERE c.relnamespace = to_regnamespace(:name) AND c.relkind IN ('v', 'r')
UNION ALL
SELECT 'FUNCTION', quote_ident(p.proname) || '(' || pg_get_function_identity_arguments(p.oid) || ')'
FROM pg_proc p WHERE p.pronamespace = to_regnamespace(:name)
"""


def ensure(connection: Connection, name: str, beside: str = "") -> None:
    """Make the schema if it is missing; `beside` is one that the role will need too.

    Raises DatabaseUnavailable if the role may not make it; the message has the statements for an administrator.
    """
    role, database, may, held = connection.execute(text(_RIGHTS), {"name": name}).one()
    if held is False:
        raise DatabaseUnavailable(
            f'the schema {name} in the database "{database}" is not that of the role "{role}"; let an administrator '
            f'run there: ALTER SCHEMA {name} OWNER TO "{role}";'
        )
    if held:
        return
    if not may:
        missing = [each for each in (name, beside) if each and not _exists(connection, each)]
        needed = " ".join(f'CREATE SCHEMA {each} AUTHORIZATION "{role}";' for each in missing)
        raise DatabaseUnavailable(
            f'the role "{role}" may not make the schema {name} in the database "{database}"; let an administrator run '
            f"there: {needed}"
        )
    connection.exec_driver_sql(f"CREATE SCHEMA {name}")


def empty(connection: Connection, name: str) -> None:
    """Drop the views, tables and functions of a schema, with the objects that depend on them; the schema stays."""
    for kind, what in connection.execute(text(_CONTENTS), {"name": name}).all():
        connection.exec_driver_sql(f"DROP {kind} IF EXISTS {name}.{what} CASCADE".replace("%", "%%"))
    if _exists(connection, name):
        connection.exec_driver_sql(f"COMMENT ON SCHEMA {name} IS NULL")


def _exists(connection: Connection, name: str) -> bool:
    return connection.execute(text("SELECT to_regnamespace(:name)"), {"name": name}).scalar() is not None
