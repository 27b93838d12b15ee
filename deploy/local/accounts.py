"""Who may use the stack's Postgres, Kafka and S3: each service has a role with a schema of its own, a user with the
rights to its topics, and a key with the rights to its blobs; each agent has a key too, and a token for calls as its
node; `reader` reads the views of all schemas, all topics and all blobs.

Promises: made once per data directory and found again; passwords are in files that only their owner may read; no
service reads another's schema, or writes another's topics or blobs.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from gateway import IAM
from processes import write_secret

from tutti.backbone.kafka.brokers import Brokers
from tutti.backbone.kafka.users import Rights, declared, ensure_users
from tutti.backbone.postgres.roles import ensure_reader, ensure_roles
from tutti.backbone.postgres.views import READER
from tutti.backbone.s3.users import ACCOUNTS, accounts, agent, ensure_bucket
from tutti.backbone.s3.users import declared as declared_blobs
from tutti.chassis.identity.auth import Role, Tokens

TOPICS, BLOBS = (Path(__file__).resolve().parents[1] / "docker" / f"{name}.json" for name in ("topics", "blobs"))


def roles(admin_url: str, services: Sequence[str], record: Path) -> dict[str, str]:
    """Return the database URL of each service's own role, and of the reader; roles that are missing are made."""
    passwords = _passwords([*services, READER], record)
    ensure_roles(admin_url, {service: passwords[service] for service in services})
    ensure_reader(admin_url, passwords[READER])
    return _urls(admin_url, passwords)


def users(admin_url: str, services: Sequence[str], record: Path) -> dict[str, str]:
    """Return the log URL of each service's own user and of the reader; what is missing is made."""
    passwords = _passwords([*services, READER], record)
    topics, rights = declared(TOPICS)
    rights[READER] = Rights(reads=[topic.name for topic in topics])
    ensure_users(Brokers.parse(admin_url), passwords, rights, topics)
    return _urls(admin_url, passwords)


def keys(admin_url: str, gateway: Path, record: Path, nodes: Sequence[str]) -> dict[str, str]:
    """Return the blob URL of each service, of the agent of each node and of the reader; missing keys are made.

    `gateway` is the folder of the S3 server.
    """
    rights = declared_blobs(BLOBS.read_text(), nodes)
    passwords = _passwords([*rights, READER], record)
    write_secret(gateway / IAM / ACCOUNTS, accounts(passwords))
    ensure_bucket(admin_url, rights, [READER])
    return _urls(admin_url, passwords)


def tokens(every: Tokens, nodes: Sequence[str], folder: Path) -> dict[str, Path]:
    """Return the file of the token of each agent, by node; a token is good for its node alone."""
    files = {node: folder / f"{agent(node)}.tokens" for node in nodes}
    for node, file in files.items():
        write_secret(file, Tokens({Role.AGENT: every.for_node(node)}).text())
    return files


def verifying(every: Tokens, folder: Path) -> Path:
    """Return the file of the tokens of all services: with it none of them can act as a person, or as an agent."""
    file = folder / "services.tokens"
    write_secret(file, every.for_service().text())
    return file


def reading(admin_url: str, record: Path) -> str:
    """Return the blob URL of the reader, whose key `keys` made."""
    return _urls(admin_url, {READER: json.loads(record.read_text())[READER]})[READER]


def _urls(admin_url: str, passwords: Mapping[str, str]) -> dict[str, str]:
    parts = urlsplit(admin_url)
    addresses = parts.netloc.rpartition("@")[2]
    return {
        service: parts._replace(netloc=f"{service}:{password}@{addresses}").geturl()
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
