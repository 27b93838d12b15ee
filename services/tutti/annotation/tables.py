"""The tables of annotation: campaigns, and as rows their guidelines, annotators, pairs, assignments and judgements.

Promises: a judgement is never changed or deleted; what an annotator wrote in words is in the tables `comments`,
`messages` and `written_demonstrations` alone, which can be erased. `holdings` has the tenants of
published blobs.
"""

from collections.abc import Iterable

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Table, Text, select

from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.limits import Limits
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import NAME, declare
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import Campaign


class Tables:
    def __init__(self, metadata: MetaData) -> None:
        self.campaigns: Resource[Campaign] = Resource(
            metadata,
            "campaigns",
            Campaign,
            {"state": lambda campaign: int(campaign.state)},
            shown=lambda unit, campaign, principal: principal.sees(campaign.tenant),
        )
        self.limits = Limits(metadata)
        self.texts = declare(
            "campaign_texts",
            metadata,
            Column("campaign", NAME, primary_key=True),
            Column("pairs", Text, nullable=False),
            Column("qualifying", Text, nullable=False),
        )
        self.guidelines = declare(
            "guidelines",
            metadata,
            Column("campaign", NAME, primary_key=True),
            Column("version", NAME, primary_key=True),
            Column("place", Integer, nullable=False),
            Column("words", Text, nullable=False),
            Column("retracted", Text, nullable=False, server_default=""),
        )
        self.annotators = declare(
            "annotators",
            metadata,
            Column("campaign", NAME, primary_key=True),
            Column("key", NAME, primary_key=True),
            Column("user", NAME, nullable=False, index=True),
            Column("state", NAME, nullable=False),
            Column("reason", Text, nullable=False),
            Column("guideline", NAME, nullable=False),
            Column("places", Integer, nullable=False),
            Column("code", NAME, nullable=False, server_default=""),
            Column("weight", Float(53), nullable=False, server_default="1"),
            Column("weight_reason", Text, nullable=False, server_default=""),
        )
        given, needed = Column("given", Integer, nullable=False), Column("needed", Integer, nullable=False)
        self.pairs = declare(
            "pairs",
            metadata,
            Column("campaign", NAME, primary_key=True),
            Column("id", NAME, primary_key=True),
            Column("number", Integer, nullable=False),
            Column("kind", NAME, nullable=False),
            Column("prompt", Text, nullable=False),
            Column("first", Text, nullable=False),
            Column("second", Text, nullable=False),
            Column("first_source", NAME, nullable=False),
            Column("second_source", NAME, nullable=False),
            Column("base", Integer, nullable=False),
            Column("better", NAME, nullable=False),
            Column("explanation", Text, nullable=False),
            Column("first_stop", NAME, nullable=False, server_default="end"),
            Column("second_stop", NAME, nullable=False, server_default="end"),
            needed,
            given,
            Column("judged", Integer, nullable=False),
            Column("verdict", NAME, nullable=False, server_default=""),
            Column("verdict_reason", Text, nullable=False, server_default=""),
            Index("pairs_number", "campaign", "kind", "number"),
            Index("pairs_counts", "campaign", "kind", "verdict", "needed", "judged"),
            Index(
                "pairs_open",
                "campaign",
                "kind",
                "number",
                sqlite_where=given < needed,
                postgresql_where=given < needed,
            ),
        )
        self.assignments = declare(
            "assignments",
            metadata,
            Column("campaign", NAME, primary_key=True),
            Column("annotator", NAME, primary_key=True),
            Column("pair", NAME, primary_key=True),
            Column("place", Integer, nullable=False),
            Column("state", NAME, nullable=False),
            Column("expires_at", BigInteger, nullable=False),
            Column("judgement", NAME, nullable=False),
            Index("assignments_open", "campaign", "state", "expires_at"),
        )
        self.judgements = declare(
            "judgements",
            metadata,
            Column("id", NAME, primary_key=True),
            Column("campaign", NAME, nullable=False),
            Column("annotator", NAME, nullable=False),
            Column("pair", NAME, nullable=False),
            Column("kind", NAME, nullable=False),
            Column("flipped", Boolean, nullable=False),
            Column("scores", Text, nullable=False),
            Column("said", NAME, nullable=False),
            Column("guideline", NAME, nullable=False),
            Column("reason", Text, nullable=False),
            Column("shown_ms", BigInteger, nullable=False),
            Column("received_at", BigInteger, nullable=False),
            Column("supersedes", NAME, nullable=False),
            Column("current", Boolean, nullable=False),
            Column("simulated", Boolean, nullable=False),
            Column("digest", NAME, nullable=False),
            Index("judgements_campaign", "campaign", "annotator", "kind"),
        )
        self.comments = declare(
            "comments",
            metadata,
            Column("judgement", NAME, primary_key=True),
            Column("campaign", NAME, nullable=False, index=True),
            Column("words", Text, nullable=False),
        )
        self.live_fits = declare(
            "live_fits",
            metadata,
            Column("campaign", NAME, primary_key=True),
            Column("number", Integer, nullable=False),
            Column("fitted_at", BigInteger, nullable=False),
            Column("newest", BigInteger, nullable=False),
            Column("seconds", Float(53), nullable=False),
            Column("body", Text, nullable=False),
        )
        self.messages = declare(
            "messages",
            metadata,
            Column("id", NAME, primary_key=True),
            Column("campaign", NAME, nullable=False),
            Column("annotator", NAME, nullable=False),
            Column("words", Text, nullable=False),
            Column("sent_at", BigInteger, nullable=False),
            Column("answer", Text, nullable=False),
            Column("answerer", NAME, nullable=False),
            Index("messages_campaign", "campaign", "annotator", "sent_at"),
        )
        self.holdings = declare(
            "holdings",
            metadata,
            Column("key", NAME, primary_key=True),
            Column("tenant", NAME, primary_key=True),
        )
        self.written = declare(
            "written_demonstrations",
            metadata,
            Column("id", NAME, primary_key=True),
            Column("campaign", NAME, nullable=False),
            Column("annotator", NAME, nullable=False),
            Column("pair", NAME, nullable=False),
            Column("words", Text, nullable=False),
            Column("state", NAME, nullable=False),
            Column("reviewer", NAME, nullable=False),
            Column("reason", Text, nullable=False),
            Index("written_demonstrations_campaign", "campaign", "id"),
        )

    def hold(self, unit: Unit, key: str, campaigns: Iterable[str]) -> None:
        """Record that a blob was made of these campaigns; if they belong to one tenant, it belongs to that one too."""
        found = [self.campaigns.find(unit, name) for name in campaigns]
        tenants = {each.tenant if each else "" for each in found}
        table, row = self.holdings, {"key": key, "tenant": min(tenants, default="")}
        same = select(table).where(table.c.key == key, table.c.tenant == row["tenant"])
        if len(tenants) == 1 and row["tenant"] and unit.tx.execute(same).first() is None:
            unit.insert_new(table, [row])

    def holds(self, unit: Unit, key: str, principal: Principal) -> bool:
        """Return whether a blob was made of campaigns of the principal's tenant."""
        mine = select(self.holdings).where(self.holdings.c.key == key, self.holdings.c.tenant == principal.tenant)
        return unit.tx.execute(mine).first() is not None

    def all_shown(self, unit: Unit, names: Iterable[str], principal: Principal) -> bool:
        """Return whether every one of these campaigns exists for a principal; machines see also those that are gone."""
        return principal.is_machine or all(self.campaigns.exists_for(unit, name, principal) for name in names)

    @property
    def rows(self) -> tuple[Table, ...]:
        return (
            self.texts,
            self.guidelines,
            self.annotators,
            self.pairs,
            self.assignments,
            self.judgements,
            self.comments,
            self.messages,
            self.written,
            self.live_fits,
            self.holdings,
            self.limits.table,
        )
