"""Who may use the stack's Postgres and Kafka: each service has a role with a schema of its own, and a user with the
rights to its topics.

Promises: made once per data directory and found again; passwords are in files that only their owner may read; no
service reads another's schema, or writes another's topics.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from processes import write_secret

from tutti.backbone.kafka.brokers import Brokers
from tutti.backbone.kafka.users import declared, ensure_users
from tutti.backbone.postgres.roles import ensure_roles

TOPICS = Path(__file__).resolve().parents[1] / "docker" / "topics.json"


def roles(admin_url: str, services: Sequence[str], record: Path) -> dict[str, str]:
    """Return the database URL of each service's own role; roles that are missing are made."""
    passwords = _passwords(services, record)
    ensure_roles(admin_url, passwords)
    return _urls(admin_url, passwords)


def users(admin_url: str, services: Sequence[str], record: Path) -> dict[str, str]:
    """Return the log URL of each service's own user; topics, users and rights that are missing are made."""
    passwords = _passwords(services, record)
    topics, rights = declared(TOPICS)
    ensure_users(Brokers.parse(admin_url), passwords, rights, topics)
    return _urls(admin_url, passwords)


def _urls(admin_url: str, passwords: Mapping[str, str]) -> dict[str, str]:
    parts = urlsplit(admin_url)
    return {
        service: parts._replace(netloc=f"{service}:{password}@{parts.hostname}:{parts.port}").geturl()
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
