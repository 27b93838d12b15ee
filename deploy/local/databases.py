"""Who may use the stack's Postgres: one role a service, each with a schema of its own.

Promises: made once per data directory and found again; passwords lie in a file that only its owner may read; a role
cannot read another's schema.
"""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
from processes import write_secret
from psycopg import sql


def roles(admin_url: str, services: Sequence[str], record: Path) -> dict[str, str]:
    """The URL of each service's own role; roles that are missing are made."""
    passwords = _passwords(services, record)
    with psycopg.connect(admin_url, autocommit=True, connect_timeout=10) as connection:
        database = sql.Identifier(connection.info.dbname)
        found = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles").fetchall()}
        for service, password in passwords.items():
            role, verb = sql.Identifier(service), sql.SQL("ALTER" if service in found else "CREATE")
            secret = sql.Literal(password)
            connection.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, role, secret))
            connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, role))
    parts = urlsplit(admin_url)
    return {
        service: parts._replace(netloc=f"{service}:{quote(password)}@{parts.hostname}:{parts.port}").geturl()
        for service, password in passwords.items()
    }


def _passwords(services: Sequence[str], record: Path) -> dict[str, str]:
    try:
        old: dict[str, str] = json.loads(record.read_text())
    except FileNotFoundError:
        old = {}
    new = {service: old.get(service) or secrets.token_urlsafe(24) for service in services}
    if new != old:
        write_secret(record, json.dumps(new))
    return new
