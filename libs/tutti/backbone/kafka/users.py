"""Users of Kafka: one for each service, with rights to its own topics and to those that it reads.

Promises: idempotent; a user writes and configures its own topics alone, reads the topics that it consumes, and is in
the group of its own name alone; rights that a user no longer has are removed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import kafka
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialUpsertion,
)

from tutti.backbone.eventlog import Kind, LogRefused, Topic
from tutti.backbone.kafka.brokers import MECHANISM, Brokers
from tutti.backbone.kafka.eventlog import KafkaEventLog

_LOOKS = (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
_READS = (ACLOperation.READ, *_LOOKS)
_OWNS = (ACLOperation.WRITE, ACLOperation.CREATE, ACLOperation.ALTER_CONFIGS, *_READS)


@dataclass(frozen=True)
class Rights:
    """Names of topics. `shares` are those that every service reads and writes."""

    owns: Sequence[str] = ()
    reads: Sequence[str] = ()
    shares: Sequence[str] = ()


def declared(file: Path) -> tuple[list[Topic], dict[str, Rights]]:
    """Return every topic and the rights of each service from the file that `tools/pages.py` generates."""
    found = json.loads(file.read_text())
    topics = [Topic(name, Kind(kind), partitions) for name, (kind, partitions) in found["topics"].items()]
    return topics, {service: Rights(**rights) for service, rights in found["services"].items()}


def ensure_users(
    admin: Brokers, passwords: Mapping[str, str], rights: Mapping[str, Rights], topics: Sequence[Topic]
) -> None:
    """Let each user log in with its password and have its rights; create `topics`. Raises EventLogError."""
    with closing(KafkaEventLog(admin)) as log:
        log.ensure(topics)
    with closing(kafka.KafkaAdminClient(**admin.settings())) as client:
        changes = [UserScramCredentialUpsertion(user, MECHANISM, password) for user, password in passwords.items()]
        if failed := {user: why for user, why in client.alter_user_scram_credentials(changes).items() if why}:
            raise LogRefused(f"{admin}: cannot set passwords: {failed}")
        for user in passwords:
            wanted = list(_acls(user, rights[user]))
            held = client.describe_acls(_every(user))[0]
            if surplus := [each for each in held if each not in wanted]:
                client.delete_acls(surplus)
            if refused := client.create_acls([each for each in wanted if each not in held])["failed"]:
                raise LogRefused(f"{admin}: cannot give rights to {user}: {refused}")


def _acls(user: str, rights: Rights) -> Iterable[ACL]:
    shared = (*_READS, ACLOperation.WRITE)
    for names, operations in ((rights.owns, _OWNS), (rights.reads, _READS), (rights.shares, shared)):
        for name in names:
            yield from (_allowed(user, ResourceType.TOPIC, name, operation) for operation in operations)
    for operation in (ACLOperation.READ, ACLOperation.DESCRIBE):
        yield _allowed(user, ResourceType.GROUP, user, operation)


def _allowed(user: str, kind: ResourceType, name: str, operation: ACLOperation) -> ACL:
    return ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name))


def _every(user: str) -> ACLFilter:
    pattern = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    return ACLFilter(f"User:{user}", None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)
