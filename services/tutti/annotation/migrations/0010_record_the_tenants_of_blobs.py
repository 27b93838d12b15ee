"""Record the tenants of blobs: those of the campaigns that published ones were made of."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

import sqlalchemy as sa
from alembic.operations import Operations
from google.protobuf.message import DecodeError, Message

from tutti.contracts.annotation.v1 import Campaign, Demonstrations, Preferences

M = TypeVar("M", bound=Message)
NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_HOLDINGS = sa.table("holdings", sa.column("key"), sa.column("tenant"))


def upgrade(op: Operations) -> None:
    op.create_table(
        "holdings",
        sa.Column("key", NAME, nullable=False),
        sa.Column("tenant", NAME, nullable=False),
        sa.PrimaryKeyConstraint("key", "tenant"),
    )
    connection = op.get_bind()
    campaigns = list(_read(connection, "campaigns", Campaign))
    tenants = {campaign.name: campaign.tenant for campaign in campaigns}
    made = [(campaign.result.manifest_key, [campaign.name]) for campaign in campaigns]
    for preferences in _read(connection, "preferences", Preferences):
        made += _of_preferences(preferences)
    for demonstrations in _read(connection, "demonstrations", Demonstrations):
        made += _of_demonstrations(demonstrations)
    held = {(key, tenant) for key, names in made if key and (tenant := _tenant(tenants, names))}
    if held:
        connection.execute(sa.insert(_HOLDINGS), [{"key": key, "tenant": tenant} for key, tenant in sorted(held)])


def _read(connection: sa.Connection, table: str, message: type[M]) -> Iterator[M]:
    """The resources of a table; damaged rows are left out, since nobody can read them either."""
    for (body,) in connection.execute(sa.select(sa.column("body")).select_from(sa.table(table))):
        with suppress(DecodeError):
            yield message.FromString(bytes(body))


def _of_preferences(found: Preferences) -> list[tuple[str, list[str]]]:
    spec = found.spec
    judged = [(spec.manifest_key, [spec.campaign]), *((each.manifest_key, [each.campaign]) for each in spec.others)]
    return [*judged, (found.result.manifest_key, [name for _, names in judged for name in names])]


def _of_demonstrations(found: Demonstrations) -> list[tuple[str, list[str]]]:
    accepted = [(each.manifest_key, [each.campaign]) for each in found.spec.accepted]
    return [*accepted, (found.result.manifest_key, [name for _, names in accepted for name in names])]


def _tenant(tenants: dict[str, str], names: Iterable[str]) -> str:
    """The tenant of all these campaigns; empty if they have none in common."""
    found = {tenants.get(name, "") for name in names}
    return found.pop() if len(found) == 1 else ""
