"""Who may use the stack's Postgres: one role a service, each with a schema of its own.

Promises: made once per data directory and found again; passwords lie in a file that only its owner may read; a role
cannot read another's schema.
"""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

from processes import write_secret

from tutti.backbone.postgres.roles import ensure_roles


def roles(admin_url: str, services: Sequence[str], record: Path) -> dict[str, str]:
    """The URL of each service's own role; roles that are missing are made."""
    passwords = _passwords(services, record)
    ensure_roles(admin_url, passwords)
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
